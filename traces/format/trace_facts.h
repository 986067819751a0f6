#pragma once
#include <string>
#include <vector>

#include "traces/trace.h"

namespace baechi {

/// Totals over a graph's ops; `temporary` is the maximum. Times are those of the first device type;
/// an op without one counts as 0.
struct TraceTotals {
  Duration compute{};
  Bytes outputs{}, persistent{}, temporary{}, cache{};
  std::size_t without_time = 0;
};
TraceTotals totals(const OpGraph& graph);

/// Warnings about missing facts, without which a simulation is meaningless.
std::vector<std::string> warnings(const Trace& trace);

}  // namespace baechi
