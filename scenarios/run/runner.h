/// Scenarios to results: everything is made first, then runs are independent of each other.
#pragma once
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "placers/placer.h"
#include "scenarios/run/prepared_graph.h"
#include "scenarios/run/results.h"
#include "scenarios/run/scenario.h"
#include "sim/cluster/bounds.h"
#include "traces/trace.h"

namespace baechi {

/// A graph on a cluster: what several runs share.
struct PlannedProblem {
  std::size_t graph = 0;  ///< into Plan::graphs
  Cluster cluster;
  std::unique_ptr<CostModel> costs, placed_costs;  ///< of the step, of what placers see
  LowerBounds bounds;
  std::string warning{};  ///< of sizes that its calibration does not cover
};

struct PlannedRun {
  std::size_t file = 0, point = 0;  ///< into Plan::files, ScenarioFile::points
  std::size_t problem = 0;          ///< into Plan::problems
  std::size_t placer = 0;           ///< into Plan::placers
  std::size_t choice = 0;           ///< into Scenario::placers
  std::uint64_t seed = 0;
};

/// All that runs need, made and checked. A run's id is its position in `runs`.
struct Plan {
  std::vector<ScenarioFile> files;
  std::vector<PreparedGraph> graphs;
  std::vector<std::size_t> graph_record;  ///< of each of `graphs`, into Results::graphs
  std::vector<std::unique_ptr<PlannedProblem>> problems;
  std::vector<std::unique_ptr<const Placer>> placers;
  std::vector<PlannedRun> runs;
  Results header;  ///< all but the rows
};

/// Reads and transforms each distinct graph once, on up to `threads` threads, and makes clusters,
/// costs, bounds and placers. What is wrong with any of them is added to `mistakes`; then the plan
/// is not to be run.
Plan make_plan(std::vector<ScenarioFile> files, std::size_t threads, Mistakes& mistakes);

/// What a run simulates: the step as it was placed, or what a transform made of it by where its ops
/// are. Refers to the plan.
class RunStep {
 public:
  RunStep(const Plan& plan, const PlannedRun& run, Placement placement);
  RunStep(const RunStep&) = delete;
  RunStep& operator=(const RunStep&) = delete;

  Problem problem() const;
  const Placement& placement() const { return other_ ? other_->placement : placement_; }
  Duration lower_bound() const;

 private:
  const Scenario& point_;
  const PlannedProblem& shared_;
  const OpGraph& graph_;
  Placement placement_;
  std::optional<SimulatedStep> other_;
  std::unique_ptr<CostModel> costs_;  // of other_
};

/// The step of a run once more, its placement the row's where that says all, else by the placer
/// anew. The row has to be one that was simulated.
RunStep step_of(const Plan& plan, const RunResult& row);

struct RunSettings {
  std::size_t threads = 1;
  std::size_t shard = 1, shards = 1;         ///< only runs whose id % shards == shard - 1
  const std::atomic<bool>* stop = nullptr;   ///< once set, no further run begins
  std::atomic<std::size_t>* done = nullptr;  ///< counts runs as they end
};

/// The ids that remain to be run: those of the shard that `known` does not hold.
std::vector<std::size_t> remaining_runs(const Plan& plan, const Results* known,
                                        const RunSettings& settings);

/// Runs `ids`. The result has their rows and those of `known` (null: none), by id; if stopped,
/// those that ended. A placer's InfeasibleError is Status::infeasible; what else it throws is
/// Status::error of that run alone.
Results run(const Plan& plan, std::span<const std::size_t> ids, const Results* known,
            const RunSettings& settings);

}  // namespace baechi
