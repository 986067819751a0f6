/// The page scenarios/README.md, generated from the keys that the code accepts.
#pragma once
#include <string>

namespace baechi {

/// scenarios/README.md.
std::string scenario_reference();

}  // namespace baechi
