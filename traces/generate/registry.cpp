#include <algorithm>

#include "traces/generate/generator.h"

namespace baechi {

Trace generate_alexnet(Options&);
Trace generate_inception_v3(Options&);
Trace generate_layered(Options&);
Trace generate_resnet101(Options&);
Trace generate_resnet50(Options&);
Trace generate_vgg16(Options&);

std::span<const GeneratorEntry> generators() {
  static constexpr GeneratorEntry table[] = {
      {"layered", "random layers of ops with skips, skewed times and sizes", "our own",
       generate_layered},
      {"alexnet", "AlexNet: 5 convolutions, 3 dense layers", "Krizhevsky 2014, as torchvision",
       generate_alexnet},
      {"inception_v3", "Inception-V3: 94 convolutions in 11 blocks of branches",
       "Szegedy et al. 2015; level tf1 as Baechi (SoCC'20), level module as torchvision",
       generate_inception_v3},
      {"resnet50", "ResNet-50: 16 bottleneck blocks", "He et al. 2015, as torchvision (v1.5)",
       generate_resnet50},
      {"resnet101", "ResNet-101: 33 bottleneck blocks", "He et al. 2015, as torchvision (v1.5)",
       generate_resnet101},
      {"vgg16", "VGG-16: 13 convolutions, 3 dense layers",
       "Simonyan, Zisserman 2014, as torchvision", generate_vgg16},
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
