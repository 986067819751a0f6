#include <algorithm>

#include "sim/engine/simulation.h"
#include "sim/graph/analysis.h"
#include "sim/objective/objective.h"

namespace baechi {
namespace {

/// Whether all fits on any device: then memory need not be counted.
bool memory_is_ample(const Problem& p) {
  const Bytes most = peak_upper_bound(p.graph);
  return std::ranges::all_of(p.cluster.devices(),
                             [&](DeviceId d) { return most <= p.cluster.device(d).memory; });
}

/// The engine's makespan, under its own idea of memory.
class StepTime final : public Objective {
 public:
  std::unique_ptr<Evaluator> on(const Problem& problem) const override {
    return std::make_unique<Simulation>(problem);
  }

 private:
  class Simulation final : public Evaluator {
   public:
    explicit Simulation(const Problem& problem)
        : problem_(problem), simulator_(without_needless_books(problem)) {}
    Score score(const Placement& placement) override {
      Score score = constraints(problem_, placement);
      const StepResult& step = simulator_.run(placement);
      score.value = step.makespan;
      score.over = step.oom ? step.oom->needed - step.oom->free : Bytes{};
      return score;
    }

   private:
    static Problem without_needless_books(const Problem& problem) {
      EngineOptions engine = problem.engine;
      engine.count_memory = engine.enforce_memory && !memory_is_ample(problem);
      return {problem.graph, problem.cluster, problem.costs, engine};
    }

    Problem problem_;
    Simulator simulator_;
  };
};

}  // namespace

std::unique_ptr<Objective> make_step_time(Options&) {
  return std::make_unique<StepTime>();
}

}  // namespace baechi
