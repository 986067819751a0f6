/// The rule for ops without a time: a trace of which a part has no time is placed only if the user
/// says so.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "sim/options.h"

namespace baechi {

/// Ops that compute, of which a source tells neither a time nor the work. An importer counts them.
struct Untimed {
  std::size_t ops = 0;
  std::string first{};    ///< the first of them, and why: "MatMul 'fc': its shape is not known"
  std::string instead{};  ///< what gives them times: "a file with shapes (onnx.shape_inference)"
  bool accepted = false;  ///< the user lets them take no time

  void add(std::string_view kind, std::string_view op, std::string_view why);
  /// Throws InputError, with `source` as the place, if there are any of the `all` ops, unless the
  /// user accepted them.
  void refuse(std::string_view source, std::size_t all) const;
};

/// Declares the option `untimed` of an importer. `instead`: see Untimed.
Untimed no_untimed_ops(Options& options, std::string_view instead);

}  // namespace baechi
