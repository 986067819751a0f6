/// The reference of all keys of a scenario, generated from the keys that the code accepts.
#pragma once
#include <string>

namespace baechi {

/// Markdown (`baechi schema --reference`).
std::string scenario_reference();

}  // namespace baechi
