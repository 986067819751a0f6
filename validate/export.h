/// The placed steps of scenarios as a folder of plans with predictions.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "scenarios/run/runner.h"
#include "validate/busy_share.h"
#include "validate/plan_of_step.h"
#include "validate/predictor.h"

namespace baechi::validate {

struct ExportChoice {
  SubmitMode mode = SubmitMode::graph;
  Bodies bodies = Bodies::spin;
  std::optional<Calibration> calibration{};  ///< to predict with; none: without overheads
  /// Each plan once more with this fraction of its predicted peaks as memory, enforced: NAME@0.99.
  std::vector<double> budgets{};
  std::size_t threads = 1;
  /// As many more placements of each graph: the one predicted best, with one op and its group moved
  /// to another device. Called GRAPH/near/K.
  std::size_t neighbours = 0;
  /// A graph is refused of which fewer than half of the placements keep two devices busy for this
  /// share of the step: its plans would test nothing but the lengths they are told.
  double least_busy = 0.0;
};

struct Exported {
  std::size_t plans = 0;
  std::vector<std::string> remarks;  ///< of runs without a plan, and of sizes not calibrated
  BusyShares busy;                   ///< of all plans
};

/// Runs `sweep` and writes FOLDER/plans/ID_NAME.plan and .prediction.csv of every run that was
/// simulated, in place of the plans that were there. A plan is called GRAPH/PLACER/SEED, GRAPH
/// being the scenario's name and the swept values. Its tasks have plain lengths, also where the
/// scenario has a calibration: that decides placements and orders. The calibration to predict with
/// is written beside them. Throws InputError as plan_of_step() and timing_of(), and where graphs
/// keep too few devices busy: no plans are left then.
Exported export_plans(const Sweep& sweep, const ExportChoice& choice, const std::string& folder);

}  // namespace baechi::validate
