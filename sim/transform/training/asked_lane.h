/// The lane of ops that start a transfer when its receiver has ended its previous pass.
#pragma once
#include <string_view>

namespace baechi {

inline constexpr std::string_view asked_lane = "asked";

}  // namespace baechi
