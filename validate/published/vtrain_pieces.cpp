// vTrain's steps on one node are sums of pieces that were profiled alone: for one number of ranks
// of tensor parallelism, hidden size and micro-batch, and without replicas, T = a M l + b M + c + e
// l holds to the nanosecond, M micro-batches and l layers. Its rows are therefore no measurements
// of steps. The block takes a (a layer) and b (what stands behind the last layer: logits and loss;
// and the embedding, without a pipeline) out of measured and simulated rows alike.
#include <fmt/format.h>
#include <oneapi/tbb/parallel_for.h>

#include <set>

#include "validate/least_deviations.h"
#include "validate/published/published.h"
#include "validate/published/vtrain.h"

namespace baechi::validate {
namespace {

/// Rows of one piece.
struct PieceKey {
  std::int64_t tensor = 0, hidden = 0, micro_batch = 0;
  auto operator<=>(const PieceKey&) const = default;
};
PieceKey piece_of(const GptStep& s) {
  return {s.tensor, s.hidden, s.micro_batch};
}

/// Whether the rows determine the four numbers: two numbers of micro-batches with two of layers
/// each.
bool apart(std::span<const GptStep* const> rows) {
  std::map<std::int64_t, std::set<std::int64_t>> layers;
  for (const GptStep* s : rows) layers[s->micro_batches()].insert(s->layers);
  return std::ranges::count_if(layers, [](const auto& l) { return l.second.size() > 1; }) > 1;
}

struct Pieces {
  double layer = 0.0, head = 0.0;
};
/// The pieces of rows with `pipeline` stages, of which each has its part of the layers.
Pieces taken_apart(std::span<const GptStep* const> rows, std::span<const double> ms) {
  std::vector<FitRow> fit;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto m = static_cast<double>(rows[i]->micro_batches()),
               l = static_cast<double>(rows[i]->layers);
    fit.push_back({{m * l, m, 1.0, l}, ms[i]});
  }
  const std::vector<double> x = least_relative_deviations(fit);
  return {x[0] * static_cast<double>(rows.front()->pipeline), x[1]};
}

/// The rows that show a piece, all with as few stages as possible; none if they do not.
std::vector<const GptStep*> rows_of(const std::vector<const GptStep*>& all) {
  std::map<std::int64_t, std::vector<const GptStep*>> by_stages;
  for (const GptStep* s : all)
    if (s->data == 1) by_stages[s->pipeline].push_back(s);
  for (auto& [stages, rows] : by_stages)
    if (apart(rows)) return std::move(rows);
  return {};
}

void add_piece(const PieceKey& key, const std::vector<const GptStep*>& all, Comparison& to) {
  const std::vector<const GptStep*> rows = rows_of(all);
  if (rows.empty()) {
    for (const GptStep* s : all)
      to.left.skip(s->line, "too few rows of its pieces to take them apart");
    return;
  }
  std::vector<double> measured(rows.size()), simulated(rows.size());
  tbb::parallel_for(std::size_t{0}, rows.size(), [&](std::size_t i) {
    measured[i] = rows[i]->ms;
    simulated[i] = simulated_ms(parallel_step(*rows[i]), megatron_gpu());
  });
  const Pieces was = taken_apart(rows, measured), is = taken_apart(rows, simulated);
  std::vector<std::string> lines;
  for (const GptStep* s : all) lines.push_back(s->line);
  const std::string what =
      fmt::format("t {}, h {}, micro-batch {}", key.tensor, key.hidden, key.micro_batch);
  const GptStep one{.batch = key.micro_batch,
                    .hidden = key.hidden,
                    .length = rows.front()->length,
                    .tensor = key.tensor};
  to.rows.push_back({.what = what,
                     .group = "layer",
                     .measured = was.layer,
                     .simulated = is.layer,
                     .work = layer_flops(one),
                     .lines = lines});
  to.rows.push_back({.what = what + ", head",
                     .group = "head",
                     .measured = was.head,
                     .simulated = is.head,
                     .work = head_flops(one),
                     .lines = std::move(lines)});
}

}  // namespace

std::optional<Comparison> compare_vtrain_pieces(const std::string& folder) {
  Comparison all;
  const auto steps = vtrain_single_node(folder, all.left);
  if (!steps) return std::nullopt;
  std::map<PieceKey, std::vector<const GptStep*>> pieces;
  for (const GptStep& s : *steps) pieces[piece_of(s)].push_back(&s);
  for (const auto& [key, rows] : pieces) add_piece(key, rows, all);
  return all;
}

}  // namespace baechi::validate
