#include "scenarios/fit/fit.h"

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "traces/format/compressed_file.h"

namespace baechi {
namespace {

using FitJson = nlohmann::ordered_json;

struct FitArguments : FitWords {
  std::string format, goal = "latency", exported, output;
  std::size_t way = 1;
};

FitJson fit_memory_json(const FitMemory& m) {
  return {{"device", m.device},
          {"limit_bytes", m.limit.count},
          {"weights_bytes", m.weights.count},
          {"cache_bytes", m.cache.count},
          {"buffers_bytes", m.buffers.count},
          {"reserve_bytes", m.reserve.count},
          {"spare_bytes", m.spare().count}};
}

/// The least of a way's devices; what it lacks, as a negative number.
Bytes spare_of(const FitWay& way) {
  if (!way.fits) return Bytes{} - way.lacks;
  return std::ranges::min_element(way.memory, {}, &FitMemory::spare)->spare();
}

FitJson way_json(const FitWay& way) {
  FitJson memory = FitJson::array();
  for (const FitMemory& m : way.memory) memory.push_back(fit_memory_json(m));
  const auto if_fits = [&](FitJson value) { return way.fits ? std::move(value) : FitJson(); };
  return {{"name", way.name},
          {"fits", way.fits},
          {"tokens_per_s", if_fits(way.per_second)},
          {"step_time_us", if_fits(to_us(way.step))},
          {"first_token_us", if_fits(to_us(way.first_token))},
          {"spare_bytes", spare_of(way).count},
          {"context", way.variant.context},
          {"batch", way.variant.batch},
          {"largest_context", way.most_context},
          {"largest_batch", way.most_batch},
          {"layers", way.layers},
          {"memory", std::move(memory)},
          {"command", way.command}};
}

std::string fit_text(const FitQuestion& q, const FitAnswer& answer) {
  const bool writes = q.model.writes && !q.train;
  Columns table({"", "way", writes ? "tokens/s" : "samples/s", "step", "first token", "spare",
                 "context", "batch"});
  std::string details;
  for (std::size_t i = 0; i < answer.ways.size(); ++i) {
    const FitWay& way = answer.ways[i];
    const std::string number = std::to_string(i + 1);
    if (!way.fits) {
      table.add({number, way.name, red("lacks"), to_text(way.lacks)});
      continue;
    }
    const Bytes spare = spare_of(way);
    const bool tight = std::ranges::any_of(
        way.memory, [](const FitMemory& m) { return m.spare().count * 20 < m.limit.count; });
    table.add({number, way.name, fmt::format("{:.3g}", way.per_second), to_text(way.step),
               writes ? to_text(way.first_token) : "", to_text(spare) + (tight ? " !" : ""),
               writes ? std::to_string(way.most_context) : "",
               writes ? std::to_string(way.most_batch) : ""});
    details += fmt::format("{:>2} {}\n", number, way.command);
    for (const FitMemory& m : way.memory)
      details +=
          fmt::format("   {}: weights {}, cache {}, buffers {}, reserve {}, spare {} of {}\n",
                      m.device, to_text(m.weights), to_text(m.cache), to_text(m.buffers),
                      to_text(m.reserve), to_text(m.spare()), to_text(m.limit));
  }
  std::string text = (answer.fits ? bold(answer.sentence) : red(answer.sentence)) + "\n\n" +
                     table.text() + "\n" + details + "\n";
  if (writes)
    text += fmt::format(
        "step         of the token at {} tokens of context, for {} sequence{}; first token after a "
        "prompt of {}\ncontext,     the largest that fit with the other as asked; !: less than 5 % "
        "spare\nbatch\n",
        q.context, q.batch, q.batch == 1 ? "" : "s", std::min(q.prompt, q.context));
  if (q.train && q.context > 0)
    text += fmt::format("samples      of {} tokens (--context)\n", q.context);
  for (const std::string& note : q.model.notes) text += "not modelled " + note + "\n";
  if (q.host == Bytes{} && !q.train)
    text += "host         --cpu-memory 64GB adds ways that use the host's memory\n";
  text +=
      "links        is a GPU in a slot with fewer lanes, or joined by NVLink? --link and "
      "--host-link say so\n";
  return text + evidence_line(answer.evidence);
}

void write_way(const FitArguments& a, const FitQuestion& q, const FitAnswer& answer) {
  if (a.way > answer.ways.size() || !answer.ways[a.way - 1].fits)
    throw InputError(fmt::format("--way: {} is no way that fits", a.way));
  const auto [text, note] =
      exported_way(q, answer.ways[a.way - 1], *parse<ExportFormat>(a.exported));
  write_file(a.output, text);
  fmt::print(stderr, "{}", note);
}

int answer_fit(const FitArguments& a) {
  if (a.exported.empty() != a.output.empty())
    throw InputError("--export and -o FILE need each other");
  if (!a.exported.empty() && a.train)
    throw InputError("--export: a way to train is no place of layers; 'baechi plan' writes it");
  const FitQuestion question = question_of(a);
  FitAnswer answer;
  {
    const Stage stage("simulating ways");
    answer = fit(question);
  }
  if (a.goal != "latency")
    std::ranges::stable_sort(answer.ways, std::greater(), [&](const FitWay& way) {
      return !way.fits ? -1 : a.goal == "context" ? way.most_context : way.most_batch;
    });
  if (!a.exported.empty()) write_way(a, question, answer);
  if (a.format == "json") {
    FitJson ways = FitJson::array();
    for (const FitWay& way : answer.ways) ways.push_back(way_json(way));
    print_json({{"model", a.model},
                {"fits", answer.fits},
                {"answer", answer.sentence},
                {"context", question.context},
                {"batch", question.batch},
                {"ways", std::move(ways)},
                {"notes", question.model.notes},
                {"evidence", evidence_json(answer.evidence)}});
  } else {
    print_out(fit_text(question, answer));
  }
  return 0;
}

}  // namespace

void add_fit(CLI::App& app, Verb& chosen) {
  const auto [verb, a] = add_verb(
      app, chosen, "fit", "Say whether a model fits on GPUs, how fast it runs, and by which means",
      answer_fit);
  add_argument(*verb, "MODEL", a->model,
               "A model (Qwen/Qwen2.5-7B; 'baechi list models'), a generator (llama:size=3-8b), "
               "both with options, config.json of Hugging Face, a GGUF file, or a graph file");
  const auto add = [verb](const char* name, std::string& text, const char* type, const char* help) {
    return add_value(*verb, name, text, type, help);
  };
  add("--gpus,--devices", a->gpus, "LIST",
      "The GPUs, in the order of the layers: 2xrtx_4090,1xrtx_3060 (needed)");
  add("--memory", a->memory, "SIZE,...", "Memory of each GPU, or a list by device [of its type]");
  add("--cpu-memory", a->cpu_memory, "SIZE",
      "Memory of the host that the model may use, besides the embedding table [none]");
  add("--cpu", a->cpu, "NAME", "Device type of the host [cpu_ddr4_2ch]");
  add("--disk", a->disk, "RATE",
      "Rate of a disk, such as '3.5 GB/s', where weights may wait that the host has no memory for");
  add_number(*verb, "--context", a->context, std::int64_t{1}, std::int64_t{1} << 24U,
             "Tokens of a sequence [8192, with --train 2048, or those of the training if fewer]");
  add_number(*verb, "--batch", a->batch, std::int64_t{1}, std::int64_t{4096},
             "Sequences [1; in training, the number of GPUs]");
  add_number(*verb, "--prompt", a->prompt, std::int64_t{1}, std::int64_t{1} << 24U,
             "Tokens of the prompt before the first token [512]");
  verb->add_flag("--train", a->train,
                 "Train the model with --batch samples a step, in place of writing text");
  add_number(*verb, "--lora-rank", a->lora_rank, std::int64_t{1}, std::int64_t{1024},
             "With --train, of the adapters of LoRA and QLoRA [16]");
  add("--dtype", a->dtype, "NAME", "Dtype of activations and of weights [the model's, or fp16]")
      ->check(CLI::IsMember({"fp16", "bf16", "fp32"}));
  add("--reserve", a->reserve, "SIZE",
      "Memory of each GPU for what no graph has, such as the CUDA context [640 MiB]");
  add("--link", a->link, "NAME", "Link between GPUs ('baechi list links') [pcie4_host]");
  add("--host-link", a->host_link, "NAME", "Link between a GPU and the host [pcie4_h2d]");
  add("--goal", a->goal, "latency|throughput|context", "What comes first in the list [latency]")
      ->check(CLI::IsMember({"latency", "throughput", "context"}));
  add("--export", a->exported, "accelerate|llamacpp|vllm|megatron|deepspeed",
      "Write where the layers of a way are to the file of -o: as a device map of Hugging Face's "
      "accelerate, as arguments, or as a configuration")
      ->check(CLI::IsMember({"accelerate", "llamacpp", "vllm", "megatron", "deepspeed"}));
  add("-o,--output", a->output, "FILE", "File for --export");
  add_number(*verb, "--way", a->way, 1, 12, "Number of the way for --export [1]");
  add_format(*verb, a->format, {"table", "json"});
  verb->footer(
      "The first line answers for the model as it is, on GPUs alone; the embedding table is in "
      "host\n"
      "memory, as llama.cpp has it; vLLM keeps it on the GPU. Each way is simulated.\n"
      "Examples:\n"
      "  baechi fit llama:size=3-8b,dtype=fp16 --gpus 1xrtx_4080 --context 4096\n"
      "  baechi fit Meta-Llama-3-70B/config.json --gpus 2xrtx_4090,2xrtx_3090 --cpu-memory 64GB\n"
      "  baechi fit mistralai/Mistral-7B-v0.3:weights=q4_k_m --gpus 1xrtx_3060\n"
      "  baechi fit llama:size=3-8b --gpus 4xrtx_4090 --train --batch 16\n"
      "  baechi fit model.gguf --gpus 1xrtx_3060 --context 16384 --format json");
}

}  // namespace baechi
