/// The placed steps of scenarios as a folder of plans with predictions.
#pragma once

#include "scenarios/run/runner.h"
#include "sim/processor_time.h"
#include "validate/predictor.h"

namespace baechi::validate {

enum class Bodies : std::uint8_t {
  spin,   ///< all of exactly their simulated length
  work,   ///< what stand_in() says of their work, by the calibration if there is one; spin, where
          ///< no work is stated
  timed,  ///< measured kinds, of the size whose time is nearest to what the op was simulated to
          ///< take
};
constexpr auto names_of(Bodies) { return enumerators<Bodies::timed>(); }

/// The body of an op that was simulated to take `length`. Bodies::timed: an op with work is of the
/// kind that stand_in() says, others are spin and the measured kinds in turn, by `turn`; a spin
/// where none of the measured sizes takes so long. `calibration` may be null but for
/// Bodies::timed.
Body body_of(Bodies bodies, OpWork work, Duration length, const Calibration* calibration,
             std::size_t turn);

struct PlanChoice {
  SubmitMode mode = SubmitMode::graph;
  Bodies bodies = Bodies::spin;
  const CostModel* lengths = nullptr;        ///< of the tasks; null: the problem's
  const Calibration* calibration = nullptr;  ///< that sizes bodies; needed by Bodies::timed
};

/// The step that simulate() makes of `placement`, without memory limits. Each queue has its tasks
/// in the engine's order. A replay without overheads is the engine's schedule, to the nanosecond.
/// Budgets are the devices' memory. `salt` goes into the hash: everything else that decided the
/// plan. Transfers::staged is way host, all others are way link. Transfers::parallel has as many
/// queues as were busy at once.
/// Throws InputError on steps that a plan cannot state: Semantics::baechi, overlap switched off,
/// collectives, several lanes, staged transfers with a latency, more than 64 devices or 8 transfers
/// at once of one device.
ReplayPlan plan_of_step(const Problem& problem, const Placement& placement, std::string name,
                        const PlanChoice& choice, std::string_view salt = "");

/// Which of the questions a plan answers, each with its own targets.
enum class Layer : std::uint8_t {
  queues,     ///< ops of exact length, paced links: only queues and gaps can be wrong
  real,       ///< real ops or transfers, hardly slowed by neighbours
  contended,  ///< slowed by more than 1 %, as predicted
};
constexpr auto names_of(Layer) {
  return std::to_array<Named<Layer>>({{Layer::queues, "queues", "queues"},
                                      {Layer::real, "real", "real ops"},
                                      {Layer::contended, "contended", "real ops, contended"}});
}

/// The largest errors of step times that a layer is to have.
struct LayerTarget {
  double median = 0.0, p95 = 0.0;
};
LayerTarget target_of(Layer layer);

/// `step`: as predicted with all effects.
Layer layer_of(const ReplayPlan& plan, const Calibration& calibration, Duration step);

/// What one plan can show, as predicted.
struct PlanWorth {
  double none = 0.0;  ///< fraction of the step in which no op runs
  double two = 0.0;   ///< in which ops of two devices or more run
  /// The error of a model without overheads, over its layer's median target.
  double overheads = 0.0;
};
/// `calibration`: null if there is none; overheads are then 0.
PlanWorth worth_of(const ReplayPlan& plan, const Replay& replay, const Calibration* calibration);

/// What each graph of a set must have, or it is refused.
struct LeastWorth {
  double busy = 0.0;         ///< PlanWorth::two of half of its placements
  double overheads = 0.0;    ///< median of PlanWorth::overheads; 5: a fair test
  std::size_t distinct = 0;  ///< different placements
};

class SetWorth {
 public:
  /// `placement`: equal for equal placements.
  void add(const std::string& graph, PlanWorth worth, std::uint64_t placement);
  /// A line per graph: medians, and how many placements are distinct.
  std::vector<std::string> lines() const;
  /// A line for each thing that a graph lacks; "" if there is none.
  std::string lacking(const LeastWorth& least) const;

 private:
  struct Graph {
    std::vector<double> none, two, overheads;
    std::set<std::uint64_t> placements;
  };
  std::map<std::string, Graph> graphs_;
};

struct ExportChoice {
  SubmitMode mode = SubmitMode::graph;
  Bodies bodies = Bodies::spin;
  std::optional<Calibration> calibration{};  ///< to predict with; none: without overheads
  std::size_t threads = 1;
  /// The number of further placements of each graph: the placement predicted best, with one op and
  /// its group moved to another device. Called GRAPH/near/K.
  std::size_t neighbours = 0;
  std::size_t at_random = 0;  ///< random placements of each graph, called GRAPH/any/K
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
