#include "sim/engine/simulation.h"
#include "sim/objective/objective.h"

namespace baechi {
namespace {

/// The engine's makespan, under its own idea of memory.
class StepTime final : public Objective {
 public:
  std::unique_ptr<Evaluator> on(const Problem& problem) const override {
    return std::make_unique<Simulation>(problem);
  }

 private:
  class Simulation final : public Evaluator {
   public:
    explicit Simulation(const Problem& problem) : problem_(problem) {}
    Score score(const Placement& placement) override {
      Score score = constraints(problem_, placement);
      const StepResult step = simulate(problem_, placement);
      score.value = step.makespan;
      score.over = step.oom ? step.oom->needed - step.oom->free : Bytes{};
      return score;
    }

   private:
    Problem problem_;
  };
};

}  // namespace

std::unique_ptr<Objective> make_step_time(Options&) {
  return std::make_unique<StepTime>();
}

}  // namespace baechi
