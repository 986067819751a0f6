#include <nlohmann/json.hpp>

#include "sim/transform/transform.h"
#include "traces/generator.h"

namespace baechi {
namespace generate {

extern const char* const renamed_json;

MakeTrace make_a3c, make_alexnet, make_bert, make_blocks, make_cells, make_deep_speech_2, make_gnmt,
    make_gpt, make_gpt2, make_inception_v3, make_layered, make_llama, make_moe, make_hybrid,
    make_recurrent, make_resnet101, make_resnet50, make_resnext101, make_seq2seq,
    make_se_resnext101, make_transformer, make_unet, make_vgg, make_vgg16, make_wgan;

}  // namespace generate

std::span<const GeneratorEntry> generators() {
  static constexpr GeneratorEntry table[] = {
      {"layered", "random layers of ops with skips, skewed times and sizes", "our own",
       generate::make_layered},
      {"alexnet", "AlexNet: 5 convolutions, 3 dense layers", "Krizhevsky 2014, as torchvision",
       generate::make_alexnet},
      {"inception_v3", "Inception-V3: 94 convolutions in 11 blocks of branches",
       "Szegedy et al. 2015; level tf1 as Baechi (SoCC'20), level module as torchvision",
       generate::make_inception_v3},
      {"resnet50", "ResNet-50: 16 bottleneck blocks", "He et al. 2015, as torchvision (v1.5)",
       generate::make_resnet50},
      {"resnet101", "ResNet-101: 33 bottleneck blocks", "He et al. 2015, as torchvision (v1.5)",
       generate::make_resnet101},
      {"resnext101", "ResNeXt-101 32x4d: ResNet-101 with grouped convolutions",
       "Xie et al. 2017, as torchvision", generate::make_resnext101},
      {"se_resnext101", "ResNeXt-101 32x4d with squeeze-and-excitation", "Hu et al. 2018",
       generate::make_se_resnext101},
      {"vgg", "VGG of 11, 13, 16 or 19 layers", "Simonyan, Zisserman 2014, as torchvision",
       generate::make_vgg},
      {"vgg16", "VGG-16: 13 convolutions, 3 dense layers",
       "Simonyan, Zisserman 2014, as torchvision", generate::make_vgg16},
      {"unet", "U-Net: levels of convolutions down and up, with skips between them",
       "Ronneberger et al. 2015, as torchgpipe's benchmarks", generate::make_unet},
      {"gnmt", "GNMT v2: LSTM encoder and decoder with attention, unrolled",
       "Wu et al. 2016, as Baechi trained it", generate::make_gnmt},
      {"deep_speech_2", "Deep Speech 2: bidirectional recurrent layers over speech, unrolled",
       "Amodei et al. 2016, its 9 layers", generate::make_deep_speech_2},
      {"a3c", "A3C: 2 convolutions and 2 dense layers, the step of one worker", "Mnih et al. 2016",
       generate::make_a3c},
      {"wgan", "WGAN with a gradient penalty: a step of its critic, or of its generator",
       "Gulrajani et al. 2017", generate::make_wgan},
      {"transformer", "Transformer: encoder and decoder, base", "Vaswani et al. 2017",
       generate::make_transformer},
      {"bert", "BERT base or large, with its pretraining heads", "Devlin et al. 2018",
       generate::make_bert},
      {"gpt", "GPT of any size, one of the ranks of tensor parallelism",
       "Brown et al. 2020; Megatron-LM, Shoeybi et al. 2019", generate::make_gpt},
      {"gpt2", "GPT-2 small, medium, large or xl", "Radford et al. 2019", generate::make_gpt2},
      {"llama", "a decoder as Llama's: grouped keys, gated feed-forward networks",
       "Touvron et al. 2023", generate::make_llama},
      {"moe", "the same with experts; each token goes to a few of them",
       "Jiang et al. 2024, Mixtral", generate::make_moe},
      {"hybrid", "layers of Mamba-2, attention, feed-forward networks and experts, by letters",
       "NVIDIA 2025, Nemotron-H", generate::make_hybrid},
      {"cells", "a family: random cells of convolutions and pools, by seed",
       "search space of ENAS, Pham et al. 2018", generate::make_cells},
      {"recurrent", "a family: a random recurrent cell of 8 nodes, unrolled, by seed",
       "search space of ENAS, Pham et al. 2018", generate::make_recurrent},
      {"seq2seq", "a family: LSTM encoder and decoder with attention, by seed",
       "Bahdanau et al. 2015", generate::make_seq2seq},
      {"blocks", "a family: branches of matrix products, added up, by seed",
       "DOPPLER, ICLR 2026, in our own sizes", generate::make_blocks},
  };
  return table;
}

namespace {

using Renamed = std::vector<std::array<std::string, 3>>;

void refuse_old_names(std::string_view generator, Options& options) {
  // [generator or "" for all, before, now]; the first row of a name counts.
  static const auto all = nlohmann::json::parse(generate::renamed_json).get<Renamed>();
  std::set<std::string_view> seen;
  for (const auto& [of, before, now] : all)
    if ((of.empty() || of == generator) && seen.insert(before).second && before != now)
      options.renamed(before, now);
}

}  // namespace

Trace make_generated(const GeneratorEntry& entry, Options& options) {
  Options peeked = options;  // raw() declares
  const Options::Value* pass = peeked.raw("pass", "");
  if (pass != nullptr && pass->text != "train") return entry.make(options);
  const std::string dtype =
      options.get("dtype", std::vector<std::string>{"fp32", "fp16", "bf16", "amp", "tf32"},
                  "of most ops, as the transform `precision` has it");
  Trace trace = entry.make(options);
  if (dtype != "fp32")
    trace.graph = make_transform("precision", Options("precision", {{"to", {dtype, "", {}}}}))
                      ->apply(trace.graph)
                      .graph;
  return trace;
}

Trace generate_trace(std::string_view name, Options options, const std::string& where) {
  const GeneratorEntry& entry = find_entry(generators(), "generator", name, where);
  refuse_old_names(entry.name, options);
  for (const std::string_view published : {"llama", "moe", "hybrid"})
    if (entry.name == published) options.respelled("size", "config");
  Trace trace = make_generated(entry, options);
  options.finish();
  trace.format = entry.name;
  trace.coverage = coverage(trace.graph);
  return trace;
}

}  // namespace baechi
