/// Every component that can be chosen by name, with its summary and options.
#pragma once
#include <string>
#include <vector>

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

/// The rows of all registries, in order. Each component is made once without options, which
/// declares its options.
Catalogue catalogue();

}  // namespace baechi
