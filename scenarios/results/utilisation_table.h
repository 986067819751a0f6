/// The utilisation of the devices by each step, as a table and as points of a roofline chart.
#pragma once
#include <string>
#include <vector>

#include "scenarios/results/overview.h"
#include "scenarios/results/tables.h"

namespace baechi {

/// A run with a step time whose graph gives the ops' work.
struct UsedRun {
  const RunResult* run;
  std::string label;  ///< graph, point and placer
};

/// The first `most` such runs of the tables; `all` is their total number.
struct UsedRuns {
  std::vector<UsedRun> shown{};
  std::size_t all = 0;
};
UsedRuns used_runs(const Results& results, std::span<const ResultTable> tables, std::size_t most);

/// A row per run: step time, samples/s, TFLOP/s and fractions of the devices.
Summary utilisation_table(const Results& results, const UsedRuns& runs);

}  // namespace baechi
