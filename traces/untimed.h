#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "sim/options.h"

namespace baechi {

/// Ops that compute but have neither a time nor known work; importers count them. A trace with such
/// ops is only placed if the user accepts them.
struct Untimed {
  std::size_t ops = 0;
  std::string first{};  ///< the first one, and why: "MatMul 'fc': unknown shape"
  std::string
      instead{};  ///< what would give them times: "a file with shapes (onnx.shape_inference)"
  bool accepted = false;  ///< the user lets them take no time

  void add(std::string_view kind, std::string_view op, std::string_view why);
  /// Throws InputError with `source` as the place if there are such ops among `all` ops, unless
  /// accepted.
  void refuse(std::string_view source, std::size_t all) const;
};

/// Declares the option `untimed` of an importer.
Untimed no_untimed_ops(Options& options, std::string_view instead);

}  // namespace baechi
