#include "traces/trace.h"

#include <algorithm>

#include "sim/error.h"

namespace baechi {

Coverage coverage(const OpGraph& graph) {
  Coverage c{.ops = graph.num_ops()};
  const std::size_t kinds = std::max<std::size_t>(1, graph.device_kinds().size());
  for (const OpId v : graph.ops()) {
    bool timed = false, sized = true;
    for (std::size_t k = 0; k < kinds; ++k)
      timed = timed || graph.compute(v, k).value_or(Duration{}) > Duration{};
    for (const TensorId t : graph.outputs(v)) sized = sized && graph.tensor(t).size > Bytes{};
    c.with_time += timed ? 1U : 0U;
    c.with_bytes += sized ? 1U : 0U;
    c.with_memory += graph.op(v).persistent + graph.op(v).temporary > Bytes{} ? 1U : 0U;
  }
  return c;
}

OpGraph build_graph(OpGraphBuilder builder, const std::string& path,
                    IdVector<OpId, OpId>* renumbered) {
  try {
    return std::move(builder).build(renumbered);
  } catch (const InputError& e) {
    throw InputError(fmt::format("{}: {}", path, e.what()));
  }
}

}  // namespace baechi
