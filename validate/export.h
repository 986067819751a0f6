/// The placed steps of scenarios as a folder of plans with predictions.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "scenarios/run/runner.h"
#include "sim/processor_time.h"
#include "validate/plan_of_step.h"
#include "validate/predictor.h"
#include "validate/set_worth.h"

namespace baechi::validate {

struct ExportChoice {
  SubmitMode mode = SubmitMode::graph;
  Bodies bodies = Bodies::spin;
  std::optional<Calibration> calibration{};  ///< to predict with; none: without overheads
  /// Each plan once more with one device limited to this fraction of its predicted peak, enforced;
  /// the others have all of their memory: NAME@0.99. The limited device goes by turn among the
  /// devices that need the most, half of it or more. A limit is at least two granules of the
  /// calibration from the peak.
  std::vector<double> budgets{};
  std::size_t threads = 1;
  /// The number of further placements of each graph: the placement predicted best, with one op and
  /// its group moved to another device. Called GRAPH/near/K.
  std::size_t neighbours = 0;
  std::size_t at_random = 0;  ///< of each graph as many random placements: GRAPH/any/K
  LeastWorth least{};         ///< what a graph needs so that its plans are not refused
};

struct Exported {
  std::size_t plans = 0;
  std::vector<std::string> remarks;  ///< of runs without a plan, and of sizes not calibrated
  SetWorth worth;                    ///< of all plans
  std::uintmax_t bytes = 0;          ///< of their files
  Duration steps{};                  ///< predicted, one after the other
};

/// Runs `sweep` and writes FOLDER/plans/ID_NAME.plan and .prediction.csv of every simulated run, in
/// place of the old plans. A plan is called GRAPH/PLACER/SEED, GRAPH being the scenario's name and
/// the swept values. Its tasks have plain lengths, also if the scenario has a calibration: the
/// calibration decides placements and orders. The calibration for predictions is written beside the
/// plans. Neighbours and random placements differ from each other and from the placements of the
/// runs, if the graph has as many. Throws InputError as plan_of_step() and timing_of(), and if a
/// graph has less than the least worth; then nothing is written. `watch` counts the runs.
Exported export_plans(const Sweep& sweep, const ExportChoice& choice, const std::string& folder,
                      const Watch& watch = {});

}  // namespace baechi::validate
