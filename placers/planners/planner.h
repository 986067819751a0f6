/// The interface of planners: placers that give a stage of a pipeline several devices, and say how
/// they share its work.
#pragma once
#include <map>
#include <memory>
#include <string>

#include "placers/interface/placer.h"
#include "placers/planners/plan.h"
#include "sim/options.h"

namespace baechi::exact {

/// A plan and how it was found.
struct Planned {
  Plan plan;
  std::map<std::string, double> facts{};
  std::string detail{};  ///< one line for people, "" if there is nothing to say
};

class Planner : public Placer {
 public:
  /// `input`: as prepared() gives it. Throws InfeasibleError if there is no plan within the
  /// devices' memory.
  virtual Planned plan(const PlanInput& input) const = 0;
  /// The input that plan() is about: with the micro-batches and the ablations of the options.
  virtual PlanInput prepared(PlanInput input) const = 0;
  /// The path of the input that the options name; "" if they do not.
  virtual const std::string& file() const = 0;

  /// Plans for the devices of the problem, which must be alike; each op goes to the first device of
  /// its stage. Throws InputError if the graph is not that of the file.
  Placement place(const Problem& problem, std::uint64_t seed) const final;
};

/// The number of the first device of each stage: stages take devices in their order.
std::vector<std::int64_t> first_devices(const Plan& plan);
/// "2 stages on 3 devices: 20 x (2 x 1) 17 x (1 x 1); nodes x (replicas x tensor parallel)".
std::string in_words(const Plan& plan);

std::unique_ptr<Planner> make_piper(Options& options);
std::unique_ptr<Planner> make_pipedream_2bw(Options& options);

}  // namespace baechi::exact
