#include <algorithm>

#include "sim/error.h"
#include "sim/graph/analysis.h"
#include "sim/saturated.h"
#include "sim/transform/graph_copy.h"
#include "sim/transform/training/data_parallel.h"
#include "sim/transform/training/gradients.h"

namespace baechi {
namespace {

void check(const OpGraph& graph, const DataParallelOptions& options) {
  const bool given = options.gradients > 0.0;
  const auto gradients = given ? assumed_gradients(graph, options.gradients) : gradients_of(graph);
  if (gradients.empty())
    throw InputError(fmt::format(
        "data_parallel: {}",
        given ? "no backward op says which forward op with weights it differentiates"
              : "no backward op passes gradients to an update op; 'gradients: 0.33' assumes this "
                "fraction of the weights' bytes"));
  if (options.shares_optimizer() == 1) return;
  if (persistent_of_one_kind(graph) && !options.stateless)
    throw InputError(fmt::format(
        "data_parallel: mode {} shards optimizer state, gradients or weights, and this graph does "
        "not distinguish them: all are at its forward ops; 'stateless' takes all as weights",
        to_text(options.mode)));
}

}  // namespace

OpGraph with_shares(const OpGraph& graph, const DataParallelOptions& options) {
  check(graph, options);
  if (options.shares_optimizer() == 1) return graph;
  GraphCopy copy(graph);
  IdVector<TensorId, TensorId> tensors(graph.num_tensors());
  for (const OpId v : graph.ops()) {
    const Phase phase = graph.op(v).phase;
    const std::int64_t of = options.shares(phase, is_expert(graph, v));
    const std::int64_t work_of = phase == Phase::update ? of : 1;
    OpSpec spec = copy.spec(v);
    spec.persistent = {ceil_div(spec.persistent.count, of)};
    const OpId made = copy.add(v, spec, [&](Duration time, std::size_t) {
      return Duration{ceil_div(time.count(), work_of)};
    });
    copy.add_kernels(v, made, [&](OpWork work) {
      work.flops = ceil_div(work.flops, work_of);
      work.traffic = {ceil_div(work.traffic.count, work_of)};
      work.weights = {ceil_div(work.weights.count, work_of)};
      return work;
    });
    for (const TensorId t : graph.outputs(v))
      if (!graph.tensor(t).control) tensors[t] = copy.add_tensor(t, made, graph.tensor(t).size);
  }
  copy.add_edges(tensors);
  return std::move(copy).built().graph;
}

}  // namespace baechi
