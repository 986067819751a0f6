/// Every component that can be chosen by name; and what a scenario may contain, as a JSON Schema
/// and as a reference, generated from the keys that the code accepts.
#pragma once

#include "sim/options.h"

namespace baechi {

/// One placer, objective, measure, transform, generator, importer or cost model of collectives.
struct Component {
  std::string name;
  std::string summary;  ///< one line
  std::string source;   ///< paper and section; of an importer: how its files are recognised
  std::vector<Options::Declared> options;
  std::vector<Options::Declared> of_inference{};  ///< more, of a generator with another pass
};

struct Catalogue {
  std::vector<Component> placers, objectives, measures, transforms, generators, importers,
      collectives;
};

/// `text` as a cell of a table in Markdown.
std::string markdown_cell(std::string_view text);

/// The rows of all registries, in order. Each component is made once without options, which
/// declares its options.
Catalogue catalogue();

/// Markdown (`baechi schema --reference`).
std::string scenario_reference();

/// scenarios/scenario.schema.json: JSON Schema (draft 7), as editors read it.
std::string scenario_schema();

}  // namespace baechi
