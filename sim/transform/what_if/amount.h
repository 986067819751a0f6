/// Sizes of new ops and tensors in what-if rules, absolute or relative.
#pragma once
#include <optional>
#include <string>

#include "sim/options.h"

namespace baechi::what_if {

/// "4 MB", or "0.25x" of the bytes of the op that it is for, rounded up.
struct Amount {
  Bytes fixed{};
  double share = 0.0;

  Bytes of(Bytes whole) const;
};

/// The option `key`; nothing if not given. Anything but a size or a share from 0x to 1000x is a
/// mistake.
std::optional<Amount> read_amount(Options& o, const std::string& key, std::string_view help);

}  // namespace baechi::what_if
