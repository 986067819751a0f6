#include "traces/trace.h"

#include "sim/graph/analysis.h"

namespace baechi {

void Untimed::refuse(std::string_view source, std::size_t all) const {
  if (ops == 0 || accepted) return;
  throw InputError(fmt::format(
      "{}: {} of {} ops have neither a time nor known work, so the step time would be too short; "
      "the first is {}; give {}, or count these ops as zero: option untimed=zero of the importer",
      source, ops, all, first, instead));
}

Untimed no_untimed_ops(Options& options, std::string_view instead) {
  const std::string how =
      options.get("untimed", {"refuse", "zero"},
                  "ops without a time and without known work. refuse: an error when the graph is "
                  "placed or converted; zero: they take no time");
  return {.instead = std::string(instead), .accepted = how == "zero"};
}

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

TraceTotals totals(const OpGraph& graph) {
  TraceTotals sum;
  for (const OpId v : graph.ops()) {
    const Op& op = graph.op(v);
    const Duration time = graph.compute(v, 0).value_or(Duration::zero());
    sum.compute += time;
    sum.outputs += output_bytes(graph, v);
    sum.persistent += op.persistent;
    sum.cache += graph.cache(v);
    sum.temporary = std::max(sum.temporary, op.temporary);
    if (time == Duration::zero()) ++sum.without_time;
  }
  return sum;
}

std::vector<std::string> warnings(const Trace& trace) {
  const TraceTotals sum = totals(trace.graph);
  const Coverage& known = trace.coverage;
  std::vector<std::string> found;
  if (trace.graph.num_ops() == 0) return {"no ops"};
  const bool untimed = known.with_time == 0 || sum.without_time == trace.graph.num_ops();
  if (untimed && trace.graph.has_work())
    found.emplace_back("no op has a measured time: times follow from the ops' work (--kind)");
  else if (untimed)
    found.emplace_back("no op has a time: every step takes only its transfers");
  else if (sum.without_time > 0)
    found.push_back(fmt::format("{} of {} ops take no time", sum.without_time, known.ops));
  if (known.with_bytes == 0 || sum.outputs == Bytes{})
    found.emplace_back("no tensor has a size: transfers cost their latency, outputs no memory");
  if (trace.untimed.ops > 0)
    found.push_back(fmt::format("{} ops have neither a time nor known work; the first is {}",
                                trace.untimed.ops, trace.untimed.first));
  for (const std::string& note : trace.notes)
    if (note.starts_with("warning: ")) found.push_back(note.substr(note.find(' ') + 1));
  if (known.with_memory == 0)
    found.emplace_back("no op has weights or workspace: memory is only outputs");
  return found;
}

}  // namespace baechi
