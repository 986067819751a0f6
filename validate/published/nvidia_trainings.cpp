// Training steps that NVIDIA published: NeMo's tables, and the recipes of DGX Cloud.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "validate/published/published.h"
#include "validate/published/trainings.h"

namespace baechi::validate {
namespace {

using Pair = std::pair<std::string_view, std::string_view>;

std::string lower_case(std::string text) {
  for (char& c : text) c = static_cast<char>(std::tolower(static_cast<unsigned char>(c)));
  return text;
}

/// Number formats of the tables. FP8 there says how it is scaled; the row's own words say the rest.
std::string format_of_row(const std::string& text) {
  if (text == "BF16") return "bf16";
  if (text.starts_with("FP8") || text == "MXFP8") return "fp8";
  if (text == "NVFP4") return "nvfp4";
  throw InputError(text.empty() ? "the row says no number format"
                                : fmt::format("no number format '{}'", text));
}

std::string nodes_of_system(std::string system) {
  system = lower_case(std::move(system));
  if (system.starts_with("dgx-")) system.erase(0, 4);
  if (system == "h100" || system == "b200") return "dgx_" + system;
  if (system == "gb200" || system == "gb300") return system + "_rack";
  throw InputError(fmt::format("no kind of nodes with {}", system));
}

void drop_if(Words& words, std::string_view word, std::initializer_list<std::string_view> none) {
  const auto found = words.find(word);
  if (found != words.end() && std::ranges::find(none, found->second) != none.end())
    words.erase(found);
}

/// Megatron-LM's way: the distributed optimizer, tokens shared by ranks of tensor parallelism. The
/// recipes of NeMo exchange them beside products (tp_comm_overlap).
void as_megatron(Words& words) {
  words["framework"] = "megatron";
  words["zero"] = "1";
  if (const auto tensor = words.find("tensor"); tensor != words.end() && tensor->second != "1")
    words["sequence"] = words["overlap"] = "true";
  drop_if(words, "virtual", {"n/a", "-", "1", "NA"});
  drop_if(words, "expert", {"n/a", "-", "1", "NA"});
}

constexpr std::array nemo_columns{Pair{"task", "task"},
                                  Pair{"model", "model"},
                                  Pair{"system", "system"},
                                  Pair{"gpus", "devices"},
                                  Pair{"precision", "format"},
                                  Pair{"gbs", "batch"},
                                  Pair{"mbs", "micro_batch"},
                                  Pair{"seq", "length"},
                                  Pair{"tp", "tensor"},
                                  Pair{"pp", "pipeline"},
                                  Pair{"cp", "context"},
                                  Pair{"vp", "virtual"},
                                  Pair{"step_s_computed", "seconds"}};
constexpr std::array bridge_columns{Pair{"ep", "expert"}, Pair{"fsdp", "shards"}};

bool read_nemo(Words& words, PublishedRow& row) {
  if (take(words, "task") != "pretrain") throw InputError("fine-tuning trains other weights");
  const std::string model = take(words, "model"), system = take(words, "system"),
                    format = take(words, "format");
  row.what = fmt::format("{}, {} {}, {}", model, words["devices"], system, format);
  row.group = model;
  row.alike = fmt::format("{} {}", system, format);
  row.measured = take_number(words, "seconds");
  words["nodes"] = nodes_of_system(system);
  words["precision"] = format_of_row(format);
  set_model(words, lower_case(model));
  as_megatron(words);
  const std::string shards = take(words, "shards");
  if (!shards.empty() && shards != "0" && shards != "-") {
    words["framework"] = "fsdp";
    words["zero"] = "3";
  }
  return true;
}

TrainingFile nemo(std::string path, std::span<const Pair> columns) {
  return {.path = std::move(path), .columns = columns, .read = read_nemo, .score = score_seconds};
}

// DGX Cloud. The plan is in the title of a table, or that of its page.

constexpr std::array cloud_columns{
    Pair{"page", "page"},        Pair{"title", "title"},
    Pair{"system", "system"},    Pair{"gpus", "devices"},
    Pair{"precision", "format"}, Pair{"gbs", "batch"},
    Pair{"step_s", "seconds"},   Pair{"tokens_per_s", "tokens_per_s"}};

/// A page's plan where its tables say none, as its other releases have it.
struct CloudPlan {
  std::string_view title;  ///< begins so
  std::string_view model, plan;
  std::int64_t length;
};
constexpr std::array<CloudPlan, 9> cloud_plans{
    {{"Llama 3.1 8b BF16", "llama3-8b", "CP=2", 8192},
     {"Llama 3.1 8b", "llama3-8b", "CP=2", 8192},
     {"Llama 3.1 70b", "llama3-70b", "TP=4, PP=4, CP=2, VP=5", 8192},
     {"Maxtext LLama2 70b", "llama2-70b", "FSDP", 4096},
     {"Maxtext Llama3 70b", "llama3-70b", "FSDP", 8192},
     {"NeMo Megatron", "gpt3-175b", "TP=4, PP=8, VP=12", 2048},
     {"Nemotron4 340b", "nemotron4-340b", "TP=8, PP=8, VP=12", 4096},
     {"Grok", "grok1", "", 8192},
     {"Llama", "", "", 8192}}};

/// The number behind `key`= in a title; `fallback` if there is none.
std::string said_number(std::string_view text, std::string_view key, std::string fallback = "") {
  const std::size_t at = text.find(fmt::format("{}=", key));
  if (at == std::string_view::npos) return fallback;
  std::string digits;
  for (const char c : text.substr(at + key.size() + 1)) {
    if (c < '0' || c > '9') break;
    digits += c;
  }
  return digits;
}

bool read_cloud(Words& words, PublishedRow& row) {
  const std::string title = take(words, "title"), system = take(words, "system"),
                    format = take(words, "format");
  take(words, "page");
  const auto plan = std::ranges::find_if(
      cloud_plans, [&](const CloudPlan& p) { return title.starts_with(p.title); });
  if (title.find("Finetuning") != std::string::npos)
    throw InputError("fine-tuning trains other weights");
  if (plan == cloud_plans.end() || plan->plan.empty())
    throw InputError(fmt::format("no plan is said for '{}'", title));
  const std::string said = title.find("TP=") == std::string::npos ? std::string(plan->plan) : title;
  const bool sharded = said.find("FSDP") != std::string::npos;
  row.what = fmt::format("{}, {} {}", title.substr(0, title.find(" (")), words["devices"], system);
  row.group = fmt::format("{} {}", plan->model, format);
  row.alike = fmt::format("{} {}", system, format);
  row.measured = take_number(words, "seconds");
  const double tokens = parse_number<double>(take(words, "tokens_per_s")).value_or(0.0);
  // Weak scaling: the batch is what the rate says, in whole samples for each GPU.
  const double samples = row.measured * tokens / static_cast<double>(plan->length);
  if (!words.contains("batch"))
    words["batch"] = std::to_string(static_cast<std::int64_t>(samples + 0.5) / 8 * 8);
  words["length"] = std::to_string(plan->length);
  for (const auto& [key, word] :
       {Pair{"TP", "tensor"}, {"PP", "pipeline"}, {"CP", "context"}, {"VP", "virtual"}})
    words[std::string(word)] = said_number(said, key, "1");
  words["micro_batch"] = said_number(title, "MBS", sharded ? "2" : "1");
  words["nodes"] = nodes_of_system(system);
  words["precision"] = format_of_row(format);
  set_model(words, plan->model);
  as_megatron(words);
  if (sharded) {
    words["framework"] = "none";
    words["zero"] = "3";
    words["recompute"] = "full";
  }
  return true;
}

}  // namespace

std::optional<Comparison> compare_nemo(const std::string& folder) {
  std::vector<Pair> bridge(nemo_columns.begin(), nemo_columns.end());
  bridge.insert(bridge.end(), bridge_columns.begin(), bridge_columns.end());
  auto all = compare_trainings(folder, nemo("measured/nemo/megatron_bridge.csv", bridge));
  if (!all) return std::nullopt;
  for (const auto& [file, columns] :
       {std::pair{"automodel", std::span<const Pair>(bridge)}, {"nemo_24.07", nemo_columns}})
    if (auto more =
            compare_trainings(folder, nemo(fmt::format("measured/nemo/{}.csv", file), columns)))
      all->add(std::move(*more));
  return all;
}

std::optional<Comparison> compare_dgxc(const std::string& folder) {
  return compare_trainings(folder, {.path = "measured/dgxc/training.csv",
                                    .columns = cloud_columns,
                                    .read = read_cloud,
                                    .score = score_seconds});
}

}  // namespace baechi::validate
