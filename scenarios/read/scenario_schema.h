/// What a scenario file may say, for editors, generated from what the code itself accepts.
#pragma once
#include <string>

namespace baechi {

/// scenarios/scenario.schema.json: JSON Schema (draft 7), as editors read it.
std::string scenario_schema();

}  // namespace baechi
