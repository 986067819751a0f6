#include "scenarios/read/catalogue.h"

#include <fmt/format.h>

#include <algorithm>

#include "placers/interface/registry.h"
#include "sim/collectives/collective_models.h"
#include "sim/measure/measure.h"
#include "sim/objective/objective.h"
#include "sim/transform/transform.h"
#include "traces/format/compressed_file.h"
#include "traces/generator.h"
#include "traces/importer.h"

namespace baechi {
namespace {

/// The options that `make` declares, given `none`.
std::vector<Options::Declared> declared(auto make, Options none = {}) {
  try {
    make(none);
  } catch (const InputError&) {
    return none.declared();  // a required option is missing; all options were declared before
  }
  return none.declared();
}

Component component(std::string_view name, std::string summary, std::string_view source,
                    auto make) {
  return {std::string(name), std::move(summary), std::string(source), declared(make)};
}

/// The row's summary, followed by what the placer counts as memory.
std::string summary_of(const PlacerEntry& e) {
  return fmt::format("{}; {}", e.summary, meaning(e.memory));
}

}  // namespace

Catalogue catalogue() {
  Catalogue all;
  for (const PlacerEntry& e : placers())
    all.placers.push_back(
        component(e.name, summary_of(e), e.source, [&](Options& o) { make(e, o); }));
  const auto add = [](std::vector<Component>& to, const auto& entries) {
    for (const auto& e : entries)
      to.push_back(
          component(e.name, std::string(e.summary), e.source, [&](Options& o) { e.make(o); }));
  };
  add(all.objectives, objectives());
  add(all.measures, measures());
  add(all.transforms, transforms());
  add(all.generators, generators());
  for (Component& c : all.generators) {
    if (std::ranges::find(c.options, "pass", &Options::Declared::key) == c.options.end()) continue;
    const auto& entry = find_entry(generators(), "generator", c.name);
    c.of_inference = declared([&](Options& o) { entry.make(o); },
                              Options("", {{"pass", {"decode", ""}}, {"kv_lora_rank", {"1", ""}}}));
    std::erase_if(c.of_inference, [&](const Options::Declared& o) {
      return std::ranges::find(c.options, o.key, &Options::Declared::key) != c.options.end();
    });
  }
  add(all.collectives, collective_models());
  for (const ImporterEntry& e : importers())
    all.importers.push_back(component(e.name, std::string(e.summary), e.files, [&](Options& o) {
      TextFile none("", "");
      e.read(none, o);
    }));
  return all;
}

}  // namespace baechi
