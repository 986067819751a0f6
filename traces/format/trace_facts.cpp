#include "traces/format/trace_facts.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/graph/analysis.h"

namespace baechi {

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
