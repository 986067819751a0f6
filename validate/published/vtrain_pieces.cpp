// vTrain's steps on one node are sums of pieces that were profiled alone: for one number of ranks
// of tensor parallelism, hidden size and micro-batch, and without replicas, T = a M l + b M + c + e
// l holds to the nanosecond, M micro-batches and l layers. Its rows are therefore no measurements
// of steps. The block takes a (a layer) and b (logits and loss, and the embedding) out of the rows,
// and makes both of the kernels of a step of one layer, as vTrain did: it traces such a step by
// CUPTI's activities KERNEL, under which no kernel begins before the one before it has ended, and
// counts the gaps. So launches and kernels add up. Source: VIA-Research/vTrain, src/predictor.py
// (parse_traces), profiler/cupti.cpp (initTrace).
#include <fmt/format.h>

#include <array>
#include <map>
#include <set>

#include "sim/cluster/collectives.h"
#include "validate/least_deviations.h"
#include "validate/published/vtrain.h"

namespace baechi::validate {
namespace {

using Steps = std::vector<const GptStep*>;
using WholeNumbers = std::set<std::int64_t>;

/// Whether the rows determine four numbers: two numbers of micro-batches with two of layers each.
bool apart(const Steps& rows) {
  std::map<std::int64_t, WholeNumbers> layers;
  for (const GptStep* s : rows) layers[s->micro_batches()].insert(s->layers);
  return std::ranges::count_if(layers, [](const auto& l) { return l.second.size() > 1; }) > 1;
}

/// Steps of one number of ranks and one hidden size, without a pipeline, whose pieces are found
/// together: those of the replicas for which some micro-batch determines c and e, and of the
/// micro-batches with two numbers of layers among these.
struct Together {
  Steps rows{};
  WholeNumbers replicas{}, micro_batches{};

  explicit Together(const Steps& all) {
    std::map<std::pair<std::int64_t, std::int64_t>, Steps> by_both;
    for (const GptStep* s : all)
      if (s->pipeline == 1) by_both[{s->data, s->micro_batch}].push_back(s);
    for (const auto& [both, of_both] : by_both)
      if (apart(of_both)) replicas.insert(both.first);
    std::map<std::int64_t, WholeNumbers> layers;
    for (const auto& [both, of_both] : by_both)
      if (replicas.contains(both.first))
        for (const GptStep* s : of_both) layers[both.second].insert(s->layers);
    for (const auto& [micro_batch, of_it] : layers)
      if (of_it.size() > 1) micro_batches.insert(micro_batch);
    for (const GptStep* s : all)
      if (s->pipeline == 1 && replicas.contains(s->data) && micro_batches.contains(s->micro_batch))
        rows.push_back(s);
  }
};

/// a and b of each micro-batch in turn, then c and e of each number of replicas.
std::vector<double> solved(const Together& all) {
  const auto place = [](const WholeNumbers& of, std::int64_t n) {
    return static_cast<std::size_t>(std::distance(of.begin(), of.find(n)));
  };
  const std::size_t pieces = 2 * all.micro_batches.size();
  std::vector<FitRow> fit;
  for (const GptStep* s : all.rows) {
    const auto m = static_cast<double>(s->micro_batches()), l = static_cast<double>(s->layers);
    std::vector<double> features(pieces + 2 * all.replicas.size(), 0.0);
    const std::size_t piece = 2 * place(all.micro_batches, s->micro_batch),
                      update = pieces + 2 * place(all.replicas, s->data);
    features[piece] = m * l;
    features[piece + 1] = m;
    features[update] = 1.0;
    features[update + 1] = l;
    fit.push_back({std::move(features), s->ms});
  }
  return least_relative_deviations(fit);
}

void add_pieces(const Steps& all, std::vector<GptPiece>& to, Leftovers& left) {
  const Together together(all);
  const std::vector<double> x = together.rows.empty() ? std::vector<double>{} : solved(together);
  std::map<std::int64_t, GptPiece> pieces;
  std::size_t at = 0;
  for (const std::int64_t micro_batch : together.micro_batches) {
    pieces[micro_batch].measured = {x[at], x[at + 1]};
    at += 2;
  }
  for (const GptStep* s : all) {
    const auto piece = pieces.find(s->micro_batch);
    if (piece == pieces.end()) {
      left.skip(s->line, "too few rows of its pieces to take them apart");
      continue;
    }
    piece->second.step = *s;
    piece->second.lines.push_back(s->line);
  }
  for (auto& [micro_batch, piece] : pieces) {
    GptStep& s = piece.step;
    s.gpus = s.tensor;
    s.data = s.pipeline = s.layers = 1;
    s.batch = micro_batch;
    to.push_back(std::move(piece));
  }
}

}  // namespace

std::vector<GptPiece> pieces_of(const std::vector<GptStep>& steps, Leftovers& left) {
  std::map<std::pair<std::int64_t, std::int64_t>, Steps> by_ranks_and_size;
  for (const GptStep& s : steps) by_ranks_and_size[{s.tensor, s.hidden}].push_back(&s);
  std::vector<GptPiece> pieces;
  for (const auto& [key, rows] : by_ranks_and_size) add_pieces(rows, pieces, left);
  return pieces;
}

namespace {

/// Kernels of vTrain's head that move next to nothing, and which the graph has not. Forward: ids
/// compared, copied, masked, positions made, and a sum of the two embeddings apart: 5; the picked
/// losses: 1. Backward: the gradient of the loss, and the zeros and the values of the picked ones:
/// 3; zeros of the two tables: 2. Source: VIA-Research/vTrain, src/model/gpt_modeling.py
/// (ShardedGptEmbeddings); PyTorch's CrossEntropyLoss.
constexpr std::int64_t small_kernels_of_head = 11;

/// vTrain's profiler is emptied at the beginning and at the end of each traced pass: of the layer
/// forward and backward, of the head's embeddings and logits both ways, and of the loss forward.
/// Source: profiler/cupti.cpp (timestamp), src/trainer.py (modify_functions). How long that takes
/// is read off the heads, whose times begin at 1.6 to 2.4 ms, however few the samples are.
constexpr std::int64_t stamps_of_layer = 4, stamps_of_head = 10;
constexpr Duration stamp = std::chrono::microseconds(150);

}  // namespace

PieceTimes piece_times(const ParallelStep& step, const DeviceModel& gpu) {
  const OpGraph& graph = step.graph();
  const IdVector<OpId, Duration> times = roofline_times(graph, gpu);
  const IdVector<OpId, std::int64_t> layers = layer_of_ops(graph, 1);
  Duration layer = stamps_of_layer * stamp,
           head = stamps_of_head * stamp + gpu.host_op * small_kernels_of_head;
  for (const OpId v : graph.ops()) {
    if (graph.op(v).phase == Phase::update || graph.op(v).lane != compute_lane) continue;
    (layers[v] == 0 ? layer : head) += times[v] + gpu.host_op * std::ssize(graph.kernels(v));
  }
  for (const Collective& c : graph.collectives())
    if (layers[c.first] == 0 && graph.op(c.first).phase != Phase::update)
      layer +=
          step.cluster().collectives().time(c, std::array{step.device()[c.first]}, step.cluster());
  return {to_us(layer) / 1e3, to_us(head) / 1e3};
}

}  // namespace baechi::validate
