#include "scenarios/studies/codesign/training_work.h"

#include <algorithm>

#include "sim/accelerator/accelerator.h"
#include "sim/cluster/cluster.h"
#include "sim/error.h"

namespace baechi {
namespace {

/// The block of each op: 0 before all layers, layers + 1 after them. [num_ops]
IdVector<OpId, std::size_t> block_of_ops(const OpGraph& graph, std::int64_t layers) {
  IdVector<OpId, std::size_t> block;
  for (const std::int64_t layer : layer_of_ops(graph, layers))
    block.push_back(static_cast<std::size_t>(layer + 1));
  return block;
}

void add_layer_tasks(const OpGraph& graph, const IdVector<OpId, std::size_t>& block,
                     std::vector<LayerWork>& works) {
  std::vector<std::array<std::vector<OpId>, 3>> ops(works.size());
  for (const OpId v : graph.ops())
    ops[block[v]][static_cast<std::size_t>(graph.op(v).phase)].push_back(v);
  for (std::size_t b = 0; b < works.size(); ++b)
    for (std::size_t phase = 0; phase < 3; ++phase)
      works[b].passes[phase] = core_tasks(graph, ops[b][phase]);
}

void add_sums(const OpGraph& graph, const IdVector<OpId, std::size_t>& block,
              const Cluster& cluster, std::vector<LayerWork>& works) {
  for (const Collective& c : graph.collectives()) {
    const auto phase = static_cast<std::size_t>(graph.op(c.first).phase);
    works[block[c.first]].sums[std::min<std::size_t>(phase, 1)] +=
        cluster.collectives().time(c, std::array{DeviceId{}}, cluster);
  }
}

void add_sizes(const OpGraph& graph, const IdVector<OpId, std::size_t>& block,
               std::vector<LayerWork>& works) {
  for (const OpId v : graph.ops()) {
    const Op& op = graph.op(v);
    LayerWork& work = works[block[v]];
    work.weights += op.persistent;
    if (op.phase == Phase::backward) work.gradients += op.persistent;
    if (op.phase != Phase::forward) continue;
    for (const TensorId t : graph.outputs(v)) {
      bool backward = false;
      std::vector<std::size_t> later;  // blocks that read it, forward
      for (const EdgeId e : graph.readers(t)) {
        const OpId reader = graph.edge(e).dst;
        backward = backward || graph.op(reader).phase == Phase::backward;
        if (graph.op(reader).phase == Phase::forward && block[reader] != block[v])
          later.push_back(block[reader]);
      }
      if (backward) work.kept += graph.tensor(t).held();
      std::ranges::sort(later);
      later.erase(std::ranges::unique(later).begin(), later.end());
      for (const std::size_t b : later) works[b].input += graph.tensor(t).copied();
    }
  }
}

}  // namespace

TrainingWork training_work(const TrainingJob& job, std::int64_t tensor, std::int64_t micro_batch,
                           const Cluster& cluster) {
  TrainingJob apart = job;
  apart.options.set("kernels", {"fuse_modules=false", {}, {}});
  ParallelPlan plan{.tensor = tensor,
                    .micro_batch = micro_batch,
                    .recompute = Recomputing::off,
                    .precision = "fp32"};
  const OpGraph shapes = rank_graph(apart, plan);
  plan.precision = "fp16";
  const OpGraph sizes = rank_graph(apart, plan);
  const std::int64_t layers = layers_of(shapes);
  if (layers == 0) throw InputError(fmt::format("{}: it has no layers", job.generator));

  std::vector<LayerWork> works(static_cast<std::size_t>(layers) + 2);
  add_layer_tasks(shapes, block_of_ops(shapes, layers), works);
  const IdVector<OpId, std::size_t> block = block_of_ops(sizes, layers);
  add_sums(sizes, block, cluster, works);
  add_sizes(sizes, block, works);
  TrainingWork result{.tensor = tensor, .micro_batch = micro_batch, .kinds = {}, .blocks = {}};
  for (LayerWork& work : works) {
    const auto known = std::ranges::find(result.kinds, work);
    result.blocks.push_back(static_cast<std::uint32_t>(known - result.kinds.begin()));
    if (known == result.kinds.end()) result.kinds.push_back(std::move(work));
  }
  return result;
}

}  // namespace baechi
