/// Sizes of new ops and tensors in what-if rules, absolute or relative.
#pragma once
#include <optional>
#include <string>

#include "sim/options.h"

namespace baechi::what_if {

/// "4 MB", or "0.25x" the bytes of the op, rounded up.
struct Amount {
  Bytes fixed{};
  double share = 0.0;

  Bytes of(Bytes whole) const;
};

/// The option `key`; nothing if not given. Accepts a size, or a factor from 0x to 1000x.
std::optional<Amount> read_amount(Options& o, const std::string& key, std::string_view help);

}  // namespace baechi::what_if
