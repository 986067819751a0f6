#include "sim/error.h"
#include "sim/pipeline/pipeline.h"
#include "sim/transform/graph_copy.h"

namespace baechi {

OpGraph joined_passes(std::span<const OpGraph> passes, std::size_t in_flight) {
  BAECHI_CHECK(!passes.empty(), "no pass");
  const OpGraph& first = passes.front();
  const std::string mark = copy_mark(first);
  OpGraphBuilder builder;
  IdVector<OpId, OpId> before;
  std::vector<OpId> last;  // of each pass
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const OpGraph& graph = passes[i];
    if (graph.num_ops() != first.num_ops())
      throw InputError("passes that are joined have different ops");
    IdVector<OpId, OpId> made;
    IdVector<TensorId, TensorId> tensors(graph.num_tensors());
    for (const OpId v : graph.ops()) {
      if (graph.name(v) != first.name(v))
        throw InputError(
            fmt::format("passes that are joined have '{}' and '{}'", first.name(v), graph.name(v)));
      OpSpec spec = spec_of(graph, v);
      const std::string name = fmt::format("{}{}{}", graph.name(v), mark, i);
      if (i > 0) {
        spec.name = name;
        spec.persistent = spec.cache = {};
      } else {
        for (const OpGraph& other : passes) {
          spec.persistent = std::max(spec.persistent, other.op(v).persistent);
          spec.cache = std::max(spec.cache, other.cache(v));
        }
      }
      const OpId op = builder.add_op(spec);
      made.push_back(op);
      if (graph.op(v).group != no_group) builder.colocate(op, graph.group_name(graph.op(v).group));
      for (const OpWork& kernel : graph.kernels(v)) builder.add_kernel(op, kernel);
      for (std::size_t k = 0; k < graph.device_kinds().size(); ++k)
        builder.set_compute(op, graph.device_kinds()[k], graph.compute(v, k));
      for (const TensorId t : graph.outputs(v))
        if (!graph.tensor(t).control)
          tensors[t] = builder.add_tensor(op, graph.tensor(t).size, graph.tensor(t));
      if (i == 0) continue;
      builder.set_micro_batch(op, {v, static_cast<std::uint32_t>(i)});
      if (graph.cache(v) > Bytes{}) builder.add_control(before[v], op);
    }
    for (const EdgeId e : graph.edges()) {
      const Edge& edge = graph.edge(e);
      if (graph.tensor(edge.tensor).control)
        builder.add_control(made[edge.src], made[edge.dst]);
      else
        builder.add_edge(tensors[edge.tensor], made[edge.dst]);
    }
    for (const Collective& c : graph.collectives()) {
      std::vector<OpId> members;
      for (const OpId v : c.member_ids()) members.push_back(made[v]);
      builder.add_collective(c, members);
    }
    if (in_flight > 0 && i >= in_flight) builder.add_control(last[i - in_flight], made[OpId{0}]);
    last.push_back(made[static_cast<OpId>(graph.num_ops() - 1)]);
    before = std::move(made);
  }
  return std::move(builder).build();
}

}  // namespace baechi
