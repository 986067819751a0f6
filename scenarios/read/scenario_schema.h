/// The JSON Schema of scenario files, for editors, generated from the keys that the code accepts.
#pragma once
#include <string>

namespace baechi {

/// scenarios/scenario.schema.json: JSON Schema (draft 7), as editors read it.
std::string scenario_schema();

}  // namespace baechi
