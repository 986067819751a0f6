// Steps and memory of Korthikanti et al., "Reducing activation recomputation in large transformer
// models", MLSys 2023: table 5, and figures 1 and 7.
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "validate/published/measured_files.h"
#include "validate/published/published.h"
#include "validate/published/trainings.h"

namespace baechi::validate {
namespace {

constexpr std::string_view paper_columns =
    "model, gpus=devices, tensor, pipeline, batch, micro_batch, interleaving=virtual, quantity, "
    "how, value";

/// The models of its table 3.
struct PaperModel {
  std::string_view name;
  std::string_view hidden, layers, heads;
};
constexpr std::array<PaperModel, 4> paper_models{{{"megatron-22B", "6144", "48", "64"},
                                                  {"gpt3-175B", "12288", "96", "96"},
                                                  {"turing-530B", "20480", "105", "128"},
                                                  {"megatron-1T", "25600", "128", "160"}}};

/// What of a layer's activations is shared or computed again.
void read_how(Words& words, std::string_view how) {
  const bool both = how.ends_with("both") || how == "sequence parallel + selective recompute";
  words["sequence"] = both || how == "sequence parallel" ? "true" : "false";
  words["recompute"] = how == "full recompute"                ? "full"
                       : both || how == "selective recompute" ? "selective"
                                                              : "off";
}

bool read_paper(Words& words, PublishedRow& row, std::string_view quantity) {
  const std::string name = take(words, "model"), how = take(words, "how");
  if (take(words, "quantity") != quantity) return false;
  const auto model = std::ranges::find(paper_models, name, &PaperModel::name);
  if (model == paper_models.end()) throw InputError(fmt::format("no model '{}'", name));
  row.what = fmt::format("{}, {}", name, how);
  row.group = how;
  row.measured = take_number(words, "value");
  for (const auto& [word, value] : {std::pair{"generator", std::string_view("gpt")},
                                    {"hidden", model->hidden},
                                    {"layers", model->layers},
                                    {"heads", model->heads},
                                    {"length", "2048"},
                                    {"vocabulary", "51200"},
                                    {"tied", "false"},
                                    {"loss", "separate"},
                                    {"fused_attention", "false"},
                                    {"kernels", "megatron"},
                                    {"nodes", "dgx_a100"},
                                    {"as", "a100_megatron"}})
    words[word] = value;
  words["precision"] = "fp16";
  words["nics"] = "8";
  words["network"] = "infiniband_hdr";
  read_how(words, how);
  if (words["virtual"] == "1") words.erase("virtual");
  return true;
}

/// Bytes of a rank that all layers but the last keep for the backward pass, and of their weights:
/// what three layers have over two.
struct LayerBytes {
  double kept = 0.0, weights = 0.0;
};
LayerBytes layer_bytes(Words words) {
  std::array<LayerBytes, 2> of{};
  for (const std::size_t more : {std::size_t{0}, std::size_t{1}}) {
    words["layers"] = more == 0 ? "2" : "3";
    Words asked = words;
    for (const char* word : {"devices", "pipeline", "virtual", "nodes", "as", "nics", "network"})
      asked.erase(word);
    asked["devices"] = words["tensor"];
    const Training t = training_of(std::move(asked));
    const OpGraph graph = rank_graph(t.job, t.plan);
    for (const TensorId id : graph.tensors()) {
      const auto waits = [&](EdgeId e) {
        return graph.op(graph.edge(e).dst).phase == Phase::backward;
      };
      if (graph.op(graph.tensor(id).producer).phase == Phase::forward &&
          std::ranges::any_of(graph.readers(id), waits))
        of[more].kept += static_cast<double>(graph.tensor(id).held().count);
    }
    for (const OpId v : graph.ops())
      if (graph.op(v).phase == Phase::forward)
        of[more].weights += static_cast<double>(graph.op(v).persistent.count);
  }
  return {of[1].kept - of[0].kept, of[1].weights - of[0].weights};
}

/// The paper's first stage keeps the layers of p micro-batches, with m parts a stage those of
/// 1 + (p - 1) / (p m) times as many (section 4.2.3). Weights are half of 4 bytes there, of 18.
void score_figure(Words words, PublishedRow& row, bool percent) {
  constexpr double gib = 1U << 30U;
  const auto number = [&](const char* word) {
    return static_cast<double>(whole_of(words, word, 1));
  };
  const double p = number("pipeline"), m = number("virtual"), layers = number("layers");
  if (percent) {
    Words plain = words;
    read_how(plain, "none");
    row.simulated = 100.0 * layer_bytes(words).kept / layer_bytes(plain).kept;
  } else if (row.group == "weights and optimizer") {
    row.simulated = layer_bytes(words).weights / 2.0 * 18.0 * layers / p / gib;
  } else {
    const double parts = m > 1.0 ? 1.0 + (p - 1.0) / (p * m) : 1.0;
    row.simulated = layer_bytes(words).kept * layers * parts / gib;
  }
}

}  // namespace

std::optional<Comparison> compare_korthikanti(const std::string& folder) {
  return compare_trainings(
      folder,
      {.path = "measured/korthikanti/selective.csv",
       .columns = paper_columns,
       .read = [](Words& words, PublishedRow& row) { return read_paper(words, row, "step_s"); },
       .score = score_seconds});
}

std::optional<Comparison> compare_korthikanti_memory(const std::string& folder) {
  Comparison all;
  const auto table = read_measured(folder, "measured/korthikanti/selective.csv", all.left);
  if (!table) return std::nullopt;
  for (const bool percent : {false, true})
    each_row(*table, all.left, [&](std::size_t r) {
      Words words = words_of(*table, r, paper_columns);
      PublishedRow row{.lines = {line_of(*table, r)}};
      if (!read_paper(
              words, row,
              percent ? "activation_memory_percent_of_tensor_parallel_baseline" : "memory_gib"))
        return;
      score_figure(std::move(words), row, percent);
      row.group = percent ? "per cent, read off figure 7" : "GiB, figure 1";
      all.rows.push_back(std::move(row));
    });
  return all;
}

}  // namespace baechi::validate
