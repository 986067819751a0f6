/// What can be said of a trace at a glance: sums over its ops, and what it lacks.
#pragma once
#include <string>
#include <vector>

#include "traces/trace.h"

namespace baechi {

/// Sums over a graph's ops; `temporary` is a maximum. Times are those on the first device kind; an
/// op without such a time counts as 0.
struct TraceTotals {
  Duration compute{};
  Bytes outputs{}, persistent{}, temporary{};
  std::size_t without_time = 0;
};
TraceTotals totals(const OpGraph& graph);

/// The facts that the trace lacks. Nothing is wrong, but a simulation says little without them.
std::vector<std::string> warnings(const Trace& trace);

}  // namespace baechi
