#include "scenarios/fit/fit.h"

#include <fmt/ranges.h>

#include <cctype>
#include <cmath>

#include "scenarios/fit/trials.h"
#include "scenarios/read/choice_text.h"
#include "scenarios/read/device_table.h"

namespace baechi {
namespace {

constexpr std::int64_t most_tokens = std::int64_t{1} << 20U, most_sequences = 4096;
constexpr std::int64_t context_step = 256;
constexpr std::size_t most_ways = 12;
constexpr std::int64_t most_layers = 1024;

double gib(Bytes size) { return static_cast<double>(size.count) / (1 << 30); }

/// A change of how the model runs.
struct FitChange {
  std::string name;
  FitCase change;
};

FitCase changed_by(FitCase asked, const FitCase& change) {
  const FitVariant& v = change.variant;
  if (!v.weights.empty()) asked.variant.weights = v.weights;
  if (!v.cache.empty()) asked.variant.cache = v.cache;
  asked.variant.flash |= v.flash;
  asked.variant.vllm |= v.vllm;
  asked.variant.tensor = std::max(asked.variant.tensor, v.tensor);
  asked.elsewhere.layers |= change.elsewhere.layers;
  asked.elsewhere.experts = std::max(asked.elsewhere.experts, change.elsewhere.experts);
  if (change.elsewhere.prefetch) asked.elsewhere.prefetch = change.elsewhere.prefetch;
  return asked;
}

/// Whether vLLM runs on all GPUs, whose least compute capability is 7.0, and has the weights'
/// format.
bool runs_vllm(const FitQuestion& q) {
  const std::string& weights = q.model.weights;
  return q.model.writes && !q.model.name.ends_with(".gguf") &&
         (weights.empty() || !q.model.gguf() || weights.ends_with("=mxfp4")) &&
         std::ranges::all_of(
             q.gpus, [](const DeviceChoice& gpu) { return gpu.model->compute_capability >= 7.0; });
}

/// The question about GPUs that can share each layer: as many that are alike as the model can be
/// divided by, and those with most memory. No `numbers`, or one: there are none.
FitQuestion sharing_gpus(const FitQuestion& q) {
  if (!runs_vllm(q)) return q;
  std::vector<FitQuestion> alike;
  std::size_t number = 0;
  for (DeviceChoice gpu : q.gpus) {
    auto found = std::ranges::find_if(alike, [&](const FitQuestion& group) {
      return group.gpus[0].model == gpu.model && group.gpus[0].memory == gpu.memory;
    });
    if (found == alike.end()) {
      found = alike.insert(alike.end(), q);
      found->gpus = {gpu};
    }
    for (; gpu.count > 0; --gpu.count) found->numbers.push_back(number++);
  }
  for (FitQuestion& group : alike) {
    while (group.numbers.size() > 1) try {
        const auto ranks = static_cast<std::int64_t>(group.numbers.size());
        q.model.decode({.vllm = true, .tensor = ranks, .context = q.context});
        break;
      } catch (const InputError&) {
        group.numbers.pop_back();
      }
    group.gpus[0].count = group.numbers.size();
  }
  return *std::ranges::max_element(alike, {}, [](const FitQuestion& group) {
    const DeviceChoice& gpus = group.gpus[0];
    return gpus.count > 1 ? static_cast<std::int64_t>(gpus.count) * gpus.memory.count : 0;
  });
}

/// Fewer bits, other kernels, more GPUs for a layer and the host's memory, as far as they apply to
/// the model.
std::vector<FitChange> changes_of(const FitQuestion& q, std::size_t sharing) {
  std::vector<FitChange> all;
  const bool vllm = runs_vllm(q);
  if (q.model.writes) {
    if (q.model.weights.empty() || q.model.weights.starts_with("fp8"))
      for (const char* format : {"q8_0", "q5_k_m", "q4_k_m"})
        all.push_back({fmt::format("weights {}", format), {.variant = {.weights = format}}});
    // llama.cpp: "V cache quantization requires flash_attn".
    all.push_back({"cache q8_0", {.variant = {.cache = "q8_0", .flash = true}}});
    if (q.model.gguf()) all.push_back({"flash attention", {.variant = {.flash = true}}});
  }
  if (vllm && q.model.weights.empty())
    all.push_back({"weights fp8", {.variant = {.weights = "fp8", .vllm = true}}});
  if (vllm && sharing > 1)
    all.push_back({fmt::format("tensor {}", sharing),
                   {.variant = {.vllm = true, .tensor = static_cast<std::int64_t>(sharing)}}});
  if (q.host == Bytes{}) return all;
  if (q.model.generator == "moe" && q.model.gguf())
    all.push_back({"experts on the CPU", {.elsewhere = {.experts = most_layers}}});
  if (!q.model.writes || q.model.gguf())
    all.push_back({"layers on the CPU", {.elsewhere = {.layers = true}}});
  // vLLM lets weights wait, or accelerate; neither knows llama.cpp's formats.
  if (!q.model.writes || q.model.weights.empty() || !q.model.gguf())
    for (const std::int64_t ahead : {0, 1})
      all.push_back(
          {"offload", {.variant = {.vllm = vllm && !q.disk}, .elsewhere = {.prefetch = ahead}}});
  return all;
}

/// What runs a way with a change; llama.cpp and vLLM both have caches in 8 bits.
enum class RunBy : std::uint8_t { llama_cpp, vllm, either, accelerate };
RunBy run_by(const FitCase& change) {
  if (change.variant.vllm) return RunBy::vllm;
  if (change.elsewhere.prefetch) return RunBy::accelerate;
  return change.variant.cache.empty() ? RunBy::llama_cpp : RunBy::either;
}

/// Two changes that one framework makes, and of which none replaces the other.
bool combine(const FitChange& a, const FitChange& b) {
  const auto kind = [](const FitChange& c) {
    return !c.change.variant.weights.empty() ? 0
           : !c.change.variant.cache.empty() ? 1
           : c.change.variant.flash          ? 2
           : c.change.variant.tensor > 1     ? 3
                                             : 4;
  };
  const RunBy of_a = run_by(a.change), of_b = run_by(b.change);
  const bool together = of_a == of_b || (of_a == RunBy::either && of_b != RunBy::accelerate) ||
                        (of_b == RunBy::either && of_a != RunBy::accelerate);
  return together && kind(a) < kind(b) && !(a.change.variant.flash && b.change.variant.flash);
}

std::string upper(std::string text) {
  std::ranges::transform(text, text.begin(), [](unsigned char c) { return std::toupper(c); });
  return text;
}

/// Layers are llama.cpp's; the server's settings are environment variables.
std::string ollama_command(const FitModel& model, const FitWay& way) {
  const FitVariant& v = way.variant;
  std::string text = fmt::format("ollama run {}  # /set parameter num_ctx {}, num_gpu {}",
                                 model.ollama, v.context, layers_on_gpus(split_of(way)));
  if (v.flash) text += "; OLLAMA_FLASH_ATTENTION=1";
  if (!v.cache.empty()) text += fmt::format(" OLLAMA_KV_CACHE_TYPE={}", v.cache);
  if (v.batch > 1) text += fmt::format("; OLLAMA_NUM_PARALLEL={}", v.batch);
  return text;
}

/// What runs the model this way. `sharing`: the GPUs of `all` that share each layer, if any do.
std::string command_of(const FitQuestion& q, const FitCase& asked, const FitWay& way,
                       const std::vector<std::size_t>& sharing, std::size_t all) {
  const FitModel& model = q.model;
  const FitVariant& v = way.variant;
  if (!model.writes || way.on_disk > 0 || (asked.elsewhere.prefetch && !v.vllm))
    return q.command + " --export accelerate -o device_map.json --way ";
  const std::size_t dot = model.name.ends_with(".gguf") ? model.name.size() - 5 : model.name.size();
  const std::string name = model.name.substr(0, dot);
  const std::string stored = model.weights.substr(0, model.weights.find('+')),
                    said = v.weights.empty() ? stored : v.weights;
  if (v.vllm) {
    if (way.cpu_layers > 0 || !way.cpu_experts.empty()) return "no framework we export to";
    std::string text;
    std::vector<std::size_t> stages, gpus;
    for (std::size_t g = 0; g < way.layers.size(); ++g)
      if (way.layers[g] > 0) stages.push_back(way.layers[g]), gpus.push_back(g);
    if (v.tensor > 1) gpus = sharing;
    if (gpus.size() < all) text += fmt::format("CUDA_VISIBLE_DEVICES={} ", fmt::join(gpus, ","));
    if (stages.size() > 1)
      text += fmt::format("VLLM_PP_LAYER_PARTITION={} ", fmt::join(stages, ","));
    text += fmt::format("vllm serve {} --max-model-len {} --gpu-memory-utilization {}",
                        in_shell(model.repository), v.context, vllm_memory_share);
    // vLLM counts each GPU by itself.
    const Bytes most = std::ranges::max_element(way.memory, {}, &FitMemory::waiting)->waiting;
    if (most > Bytes{}) text += fmt::format(" --cpu-offload-gb {:.0f}", std::ceil(gib(most)));
    if (stages.size() > 1) text += fmt::format(" --pipeline-parallel-size {}", stages.size());
    if (v.tensor > 1) text += fmt::format(" --tensor-parallel-size {}", v.tensor);
    for (const char* format : {"gptq", "awq", "fp8"})
      if (said.starts_with(format)) text += fmt::format(" --quantization {}", format);
    for (const char* format : {"nf4", "fp4", "int8"})
      if (said.starts_with(format)) text += " --quantization bitsandbytes";
    if (!v.cache.empty()) text += " --kv-cache-dtype fp8";
    return text;
  }
  // Ollama's models are in 4 bits unless their names say otherwise.
  if (!model.ollama.empty() && way.layers.size() == 1 && way.cpu_experts.empty() &&
      said == (stored.empty() ? "q4_k_m" : stored))
    return ollama_command(model, way);
  const std::size_t own = model.weights.rfind('=');  // before the format of experts
  const std::string type = own == std::string::npos ? stored : model.weights.substr(own + 1);
  std::string text,
      file = dot < model.name.size()
                 ? model.name
                 : fmt::format("{}-{}.gguf", name,
                               type.empty() || type.starts_with("fp8") ? "F16" : upper(type));
  if (!v.weights.empty()) {
    const std::string made = fmt::format("{}-{}.gguf", name, upper(v.weights));
    text = fmt::format("llama-quantize {} {} {} && ", in_shell(file), in_shell(made),
                       upper(v.weights));
    file = made;
  }
  text += fmt::format("llama-server -m {} -c {}", in_shell(file), v.context * v.batch);
  if (v.batch > 1) text += fmt::format(" -np {}", v.batch);
  text += " " + llama_cpp_split(split_of(way));
  text += way.cpu_experts;
  if (!v.cache.empty()) text += fmt::format(" -ctk {0} -ctv {0}", v.cache);
  text += v.flash ? " -fa on" : " -fa off";
  return text;
}

std::string fits_sentence(const FitQuestion& q, const FitWay& way) {
  std::size_t used = 0;
  const FitMemory* fullest = &way.memory.front();
  for (const FitMemory& memory : way.memory) {
    if (memory.weights + memory.cache == Bytes{}) continue;
    if (used == 0 || memory.spare() < fullest->spare()) fullest = &memory;
    ++used;
  }
  const std::string what =
      q.train ? way.name : fmt::format("{} of {} GPUs", used, way.memory.size());
  return fmt::format("fits: {}, {:.1f} of {:.1f} GiB used on {}, {:.3g} {}/s", what,
                     gib(fullest->limit - fullest->spare()), gib(fullest->limit), fullest->device,
                     way.per_second, q.model.writes && !q.train ? "tokens" : "samples");
}

std::string lacks_sentence(const FitWay& way) {
  const FitMemory& m = *std::ranges::min_element(way.memory, {}, &FitMemory::spare);
  return fmt::format(
      "does not fit: {} lacks {:.2f} GiB: weights {:.2f}, cache {:.2f}, buffers {:.2f}, reserve "
      "{:.2f} GiB of {:.2f}",
      m.device, gib(way.lacks), gib(m.weights), gib(m.cache), gib(m.buffers), gib(m.reserve),
      gib(m.limit));
}

class Ways {
 public:
  explicit Ways(const FitQuestion& question)
      : question_(question),
        sharing_(sharing_gpus(question)),
        trials_(question),
        of_sharing_(sharing_) {}

  FitAnswer run() {
    FitAnswer answer;
    const FitModel& model = question_.model;
    const FitCase asked{.variant = {.vllm = model.writes && !model.gguf(),
                                    .context = question_.context,
                                    .batch = question_.batch}};
    add("as is", asked);
    answer.fits = ways_.front().fits;
    answer.sentence =
        answer.fits ? fits_sentence(question_, ways_.front()) : lacks_sentence(ways_.front());
    const std::vector<FitChange> changes = changes_of(question_, sharing_.numbers.size());
    if (runs_vllm(question_) && model.gguf())
      add("vLLM", changed_by(asked, {.variant = {.vllm = true}}));
    if (!answer.fits && model.writes) fewer_tokens(asked);
    std::vector<bool> fits;
    for (const FitChange& change : changes)
      fits.push_back(add(change.name, changed_by(asked, change.change)));
    // What does not fit by itself may, with a second change, be faster than what does; with more
    // GPUs for a layer it is.
    for (std::size_t i = 0; i < changes.size(); ++i)
      for (const FitChange& b : changes)
        if ((!fits[i] || b.change.variant.tensor > 1) && combine(changes[i], b))
          add(fmt::format("{} + {}", changes[i].name, b.name),
              changed_by(changed_by(asked, changes[i].change), b.change));
    const auto speed = [](const FitWay& way) {
      return std::pair(!way.fits, way.fits ? way.step.count() : way.lacks.count);
    };
    // One change that fits stays in the list, however slow.
    const auto others = std::ranges::stable_partition(ways_, [](const FitWay& way) {
      return way.fits && way.name.find(" + ") == std::string::npos;
    });
    std::ranges::stable_sort(others, {}, speed);
    if (ways_.size() > most_ways) ways_.resize(most_ways);
    std::ranges::stable_sort(ways_, {}, speed);
    for (std::size_t i = 0; i < ways_.size(); ++i)
      if (ways_[i].command.ends_with("--way ")) ways_[i].command += std::to_string(i + 1);
    answer.ways = std::move(ways_);
    answer.evidence = std::move(trials_.evidence.empty() ? of_sharing_.evidence : trials_.evidence);
    std::ranges::copy(question_.links, std::back_inserter(answer.evidence));
    const std::string collectives = collectives_over(question_.link);
    if (std::ranges::any_of(answer.ways, [](const FitWay& w) { return w.variant.tensor > 1; }))
      answer.evidence.push_back(
          collectives.empty() ? Evidence{"collectives", "unfitted: rings over the link"}
                              : Evidence{"collectives " + collectives,
                                         built_in_devices().collectives.at(collectives).source});
    return answer;
  }

 private:
  /// Whether it fits.
  bool add(const std::string& name, FitCase asked) {
    FitCase without = asked;
    without.elsewhere.experts = 0;
    FitTrials& trials = asked.variant.tensor > 1 ? of_sharing_ : trials_;
    if (asked.elsewhere.experts > 0 && trials.lacking(without) <= Bytes{}) return true;
    FitWay way = trials.way(name, asked);
    // Where in the end no weights wait, or no layer runs on the CPU, another way is the same.
    const bool idle = asked.elsewhere.prefetch ? way.waiting == Bytes{}
                                               : asked.elsewhere.layers && way.cpu_layers == 0;
    if (idle && way.fits) return true;
    if (way.fits) {
      way.command = command_of(question_, asked, way, sharing_.numbers, trials_.gpus());
      if (asked.elsewhere.layers)
        way.name.insert(way.name.rfind("layers"), fmt::format("{} ", way.cpu_layers));
      if (trials.lacking(asked) > Bytes{}) asked.elsewhere.experts = way.expert_layers;
      if (question_.model.writes) {
        way.most_context = trials.largest(asked, context_step, tokens(), &FitVariant::context);
        way.most_batch = trials.largest(asked, 1, most_sequences, &FitVariant::batch);
      }
    }
    ways_.push_back(std::move(way));
    return ways_.back().fits;
  }

  std::int64_t tokens() const {
    const std::int64_t trained = question_.model.trained_context;
    return trained > 0 ? std::max(trained, question_.context) : most_tokens;
  }

  void fewer_tokens(FitCase asked) {
    const std::int64_t most = trials_.largest(
        asked, context_step, std::min(tokens(), question_.context), &FitVariant::context);
    if (most == 0) return;
    asked.variant.context = most;
    add(fmt::format("context {}", most), asked);
  }

  const FitQuestion& question_;
  FitQuestion sharing_;  ///< of the GPUs that share each layer in a way with tensor parallelism
  FitTrials trials_, of_sharing_;
  std::vector<FitWay> ways_;
};

}  // namespace

LayerSplit split_of(const FitWay& way) {
  LayerSplit split{.gpus = way.layers.size()};
  for (const auto& [layer, device] : way.map) {
    const std::size_t on = device < split.gpus ? device : LayerSplit::host;
    if (is_numbered(layer)) split.device.push_back(on);
    split.output = on;
  }
  return split;
}

FitAnswer fit(const FitQuestion& question) {
  if (!question.train) return Ways(question).run();
  FitAnswer answer = fit_training(question);
  std::ranges::copy(question.links, std::back_inserter(answer.evidence));
  const auto whole = std::ranges::find_if(answer.ways, [&](const FitWay& way) {
    return way.fits == answer.fits && way.name.find("LoRA") == std::string::npos;
  });
  answer.sentence = answer.fits ? fits_sentence(question, *whole) : lacks_sentence(*whole);
  if (answer.ways.size() > most_ways) answer.ways.resize(most_ways);
  return answer;
}

}  // namespace baechi
