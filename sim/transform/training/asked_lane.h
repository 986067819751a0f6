/// The lane of ops that begin a transfer when its receiver has ended the pass before.
#pragma once
#include <string_view>

namespace baechi {

inline constexpr std::string_view asked_lane = "asked";

}  // namespace baechi
