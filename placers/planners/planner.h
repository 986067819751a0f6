/// The interface of planners, which assign several devices to a stage of a pipeline and choose how
/// these divide its work.
#pragma once

#include "placers/planners/staged_plan.h"
#include "sim/options.h"

namespace baechi::planners {

/// A plan and how it was found.
struct Planned {
  StagedPlan plan;
  std::map<std::string, double> facts{};
  std::string detail{};  ///< one line for people, may be ""
};

class Planner {
 public:
  virtual ~Planner() = default;

  /// `input`: a result of prepared(). Throws InfeasibleError if there is no plan within the
  /// devices' memory.
  virtual Planned plan(const PlannerInput& input) const = 0;
  /// The input of plan(): `input` with the micro-batches and the ablations of the options.
  virtual PlannerInput prepared(PlannerInput input) const = 0;
  /// The path of the input that the options name.
  virtual const std::string& file() const = 0;
};

std::unique_ptr<Planner> make_piper(Options& options);
std::unique_ptr<Planner> make_pipedream_2bw(Options& options);

struct PlannerEntry {
  std::string_view name;
  std::unique_ptr<Planner> (*make)(Options&);
};
std::span<const PlannerEntry> planners();

/// The planner called `name`; null if there is none.
const PlannerEntry* find_planner(std::string_view name);

}  // namespace baechi::planners
