#include <fmt/format.h>

#include <algorithm>

#include "sim/error.h"
#include "sim/measure/measure.h"
#include "sim/objective/objective.h"

namespace baechi {
namespace {

/// Why a placement has no value: the first of its faults.
std::string fault(const Score& score) {
  if (score.over > Bytes{})
    return fmt::format("weights are {} over the memory limits", to_text(score.over));
  if (score.misplaced > 0)
    return fmt::format("{} ops are on devices that cannot run them", score.misplaced);
  if (score.split_groups > 0)
    return fmt::format("{} colocation groups are split", score.split_groups);
  return score.deadlock ? "devices wait for each other" : "";
}

/// The value of an objective, without simulation.
class ObjectiveMeasure : public Measure {
 public:
  explicit ObjectiveMeasure(std::unique_ptr<Objective> objective)
      : objective_(std::move(objective)) {}

  Measured of(const Problem& problem, const Placement& placement) const override {
    try {
      const Score score = objective_->score(problem, placement);
      if (score.feasible()) return {.value = score.value};
      return {.out_of_memory = score.over > Bytes{}, .why = fault(score)};
    } catch (const InputError& e) {  // the objective does not support such graphs
      return {.why = e.what()};
    }
  }

 private:
  std::unique_ptr<Objective> objective_;
};

class MaxLoadMeasure final : public ObjectiveMeasure {
 public:
  using ObjectiveMeasure::ObjectiveMeasure;
  /// A load is at least the time of its ops, and so is the sum of the two largest loads by phase.
  /// bounds.group does not apply: a group of a replicated stage is on several devices.
  std::optional<Duration> bound(const LowerBounds& bounds) const override { return bounds.work; }
};

class LatencyMeasure final : public ObjectiveMeasure {
 public:
  using ObjectiveMeasure::ObjectiveMeasure;
  /// The parts of a device may overlap, so bounds.work does not apply.
  std::optional<Duration> bound(const LowerBounds& bounds) const override {
    return bounds.critical_path;
  }
};

/// The measure of the objective `name`, with the objective's options.
template <class OfObjective>
std::unique_ptr<Measure> make_objective_measure(std::string_view name, Options& o) {
  const auto entry = std::ranges::find(objectives(), name, &ObjectiveEntry::name);
  return std::make_unique<OfObjective>(entry->make(o));
}

}  // namespace

std::unique_ptr<Measure> make_max_load_measure(Options& o) {
  return make_objective_measure<MaxLoadMeasure>("max_load", o);
}

std::unique_ptr<Measure> make_latency_measure(Options& o) {
  return make_objective_measure<LatencyMeasure>("latency", o);
}

}  // namespace baechi
