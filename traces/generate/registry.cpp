#include <algorithm>

#include "traces/generator.h"

namespace baechi {

Trace generate_alexnet(Options&);
Trace generate_bert(Options&);
Trace generate_gnmt(Options&);
Trace generate_gpt2(Options&);
Trace generate_inception_v3(Options&);
Trace generate_layered(Options&);
Trace generate_llama(Options&);
Trace generate_moe(Options&);
Trace generate_resnet101(Options&);
Trace generate_resnet50(Options&);
Trace generate_transformer(Options&);
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
      {"gnmt", "GNMT v2: LSTM encoder and decoder with attention, unrolled",
       "Wu et al. 2016, as Baechi trained it", generate_gnmt},
      {"transformer", "Transformer: encoder and decoder, base", "Vaswani et al. 2017",
       generate_transformer},
      {"bert", "BERT base or large, with its pretraining heads", "Devlin et al. 2018",
       generate_bert},
      {"gpt2", "GPT-2 small, medium, large or xl", "Radford et al. 2019", generate_gpt2},
      {"llama", "a decoder as Llama's: grouped keys, gated feed-forward networks",
       "Touvron et al. 2023", generate_llama},
      {"moe", "the same with experts, of which each token goes to some",
       "Jiang et al. 2024, Mixtral", generate_moe},
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
