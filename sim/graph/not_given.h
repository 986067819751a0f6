/// Values of OpGraph and its builder for a missing tensor or time.
#pragma once
#include "sim/ids.h"
#include "sim/units.h"

namespace baechi {

inline constexpr TensorId no_tensor{~std::uint32_t{0}};
inline constexpr Duration not_given{-1};

}  // namespace baechi
