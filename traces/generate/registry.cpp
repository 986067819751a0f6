#include <algorithm>

#include "traces/generate/generator.h"

namespace baechi {

Trace generate_alexnet(Options&);
Trace generate_layered(Options&);

std::span<const GeneratorEntry> generators() {
  static constexpr GeneratorEntry table[] = {
      {"layered", "random layers of ops with skips, skewed times and sizes", "our own",
       generate_layered},
      {"alexnet", "AlexNet: 5 convolutions, 3 dense layers", "Krizhevsky 2014, as torchvision",
       generate_alexnet},
  };
  return table;
}

Trace generate_trace(std::string_view name, Options options, const std::string& where) {
  const auto it = std::ranges::find(generators(), name, &GeneratorEntry::name);
  if (it == generators().end()) {
    std::vector<std::string> known;
    for (const GeneratorEntry& entry : generators()) known.emplace_back(entry.name);
    throw InputError(fmt::format("{}no generator '{}'{} (generators: {})", at(where), name,
                                 did_you_mean(name, known), fmt::join(known, ", ")));
  }
  Trace trace = it->make(options);
  options.finish();
  trace.format = it->name;
  trace.coverage = coverage(trace.graph);
  return trace;
}

}  // namespace baechi
