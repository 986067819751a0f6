/// The page scenarios/README.md, generated from what the code itself accepts.
#pragma once
#include <string>

namespace baechi {

/// scenarios/README.md.
std::string scenario_reference();

}  // namespace baechi
