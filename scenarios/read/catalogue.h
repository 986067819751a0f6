/// What `baechi list` shows: the components, and the facts and files that the program has.
#pragma once
#include "scenarios/read/scenario_schema.h"

namespace baechi {

struct CatalogueSection {
  std::string name;
  std::vector<Component> items;
  std::string if_empty{};  ///< printed if there are no items
};
std::vector<CatalogueSection> catalogue_sections();

/// Takes the options that all placers or most generators have, with the same meaning, out of their
/// rows, and returns them as a section with a row for each of the two.
CatalogueSection take_common_options(std::vector<CatalogueSection>& sections);

}  // namespace baechi
