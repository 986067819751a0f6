#include "sim/engine/simulation.h"
#include "sim/graph/analysis.h"
#include "sim/objective/objective.h"
#include "sim/objective/step_estimate.h"

namespace baechi {
namespace {

/// Whether every device can hold everything, so that memory need not be counted.
bool memory_is_ample(const Problem& p) {
  const Bytes most = peak_upper_bound(p.graph);
  return std::ranges::all_of(p.cluster.devices(),
                             [&](DeviceId d) { return most <= p.cluster.device(d).memory; });
}

class StartOrder final : public StepObserver {
 public:
  void on_op(OpId v, DeviceId, TimePoint, TimePoint) override { ops.push_back(v); }
  std::vector<OpId> ops;
};

/// The simulated makespan. A step that runs out of memory is simulated again without limits, to
/// give the makespan of the whole step, and Score::over as the sum of the excess of each device's
/// peak: a search can then descend from an infeasible placement to a feasible one.
class StepTime final : public Objective {
 public:
  std::unique_ptr<Evaluator> on(const Problem& problem) const override {
    return std::make_unique<Simulation>(problem);
  }

 private:
  class Simulation final : public Evaluator {
   public:
    explicit Simulation(const Problem& problem)
        : problem_(problem), simulator_(without_needless_accounting(problem)) {}

    Score score(const Placement& placement) override {
      const Score broken = constraints(problem_, placement);
      const Score score = simulate(broken, placement, {});
      return fits_ ? score : simulate_without_limits(broken, placement, {});
    }

    Score begin(const Placement& placement) override {
      if (!estimate_ && can_estimate(problem_)) estimate_.emplace(problem_);
      base_ = placement;
      base_fits_ = true;
      base_whole_ = false;
      moved_.clear();
      Score score = attempt(placement);
      if (!fits_) {
        base_fits_ = false;
        score = attempt(placement);
      }
      note_base();
      if (!estimate_) return score;
      for (std::size_t lane = 0; lane < StepEstimate::lanes; ++lane)
        estimate_->place(lane, placement);
      set_order();
      return score;
    }

    Score attempt(const Placement& placement, std::span<const OpId> moved) override {
      moved_.clear();
      for (const OpId v : moved) moved_.push_back({v, placement.device[v]});
      return attempt(placement);
    }

    void keep() override {
      for (const auto& [v, to] : moved_) base_.device[v] = to;
      if (fits_ != base_fits_) {
        base_fits_ = fits_;
        if (!fits_) attempt(base_);  // it ended early, and the order of all ops is needed
      }
      note_base();
      if (!estimate_) return;
      for (const auto& [v, to] : moved_) {
        for (std::size_t lane = 0; lane < StepEstimate::lanes; ++lane) estimate_->move(lane, v, to);
      }
      set_order();
    }

    bool may_fit(std::span<const OpMove> change) override {
      if (!base_fits_ || !problem_.engine.enforce_memory) return true;
      more_.assign(problem_.cluster.num_devices(), {});
      for (const auto& [v, to] : change) {
        const Bytes held = problem_.graph.op(v).persistent;
        more_[to] += held;
        more_[base_.device[v]] -= held;
      }
      return std::ranges::none_of(more_.ids(), [&](DeviceId d) {
        return more_[d] > Bytes{} && base_peak_[d] + more_[d] > problem_.cluster.device(d).memory;
      });
    }

    std::size_t estimates() const override { return estimate_ ? StepEstimate::lanes : 1; }

    /// Estimates in the start order of the base.
    std::size_t best_estimate(std::span<const std::vector<OpMove>> changes) override {
      if (!estimate_) return 0;
      for (std::size_t lane = 0; lane < changes.size(); ++lane)
        for (const auto& [v, to] : changes[lane]) estimate_->move(lane, v, to);
      const StepEstimate::Times times = estimate_->run(order_);
      for (std::size_t lane = 0; lane < changes.size(); ++lane)
        for (const auto& [v, to] : changes[lane]) estimate_->move(lane, v, base_.device[v]);
      const auto end = times.begin() + static_cast<std::ptrdiff_t>(changes.size());
      return static_cast<std::size_t>(std::min_element(times.begin(), end) - times.begin());
    }

   private:
    static Problem without_needless_accounting(const Problem& problem) {
      EngineOptions engine = problem.engine;
      engine.count_memory = engine.enforce_memory && !memory_is_ample(problem);
      return {problem.graph, problem.cluster, problem.costs, engine};
    }
    static Problem without_limits(const Problem& problem) {
      EngineOptions engine = problem.engine;
      engine.count_memory = true;
      engine.enforce_memory = false;
      return {problem.graph, problem.cluster, problem.costs, engine};
    }

    static bool can_estimate(const Problem& problem) {
      return problem.engine.semantics == Semantics::event && problem.cluster.num_devices() > 1 &&
             StepEstimate::suits(problem);
    }

    /// With memory limits as long as the base fits: a placement that does not fit is then useless,
    /// and its step ends early.
    Score attempt(const Placement& placement) {
      started_.ops.clear();
      StepObserver* const observer = &started_;
      std::span<StepObserver* const> observers{&observer, estimate_ ? 1U : 0U};
      const Score broken = base_whole_ && keeps_constraints(problem_, placement, moved_)
                               ? Score{}
                               : constraints(problem_, placement);
      whole_ = broken.misplaced + broken.split_groups == 0;
      return base_fits_ ? simulate(broken, placement, observers)
                        : simulate_without_limits(broken, placement, observers);
    }

    /// `score`: the result of constraints(). Sets fits_ and peak_.
    Score simulate(Score score, const Placement& placement,
                   std::span<StepObserver* const> observers) {
      const StepResult& step = simulator_.run(placement, observers);
      score.value = step.makespan;
      score.over = step.oom ? step.oom->needed - step.oom->free : Bytes{};
      fits_ = !step.oom;
      note_peaks(step);
      return score;
    }
    Score simulate_without_limits(Score score, const Placement& placement,
                                  std::span<StepObserver* const> observers) {
      if (!unlimited_) unlimited_.emplace(without_limits(problem_));
      const StepResult& step = unlimited_->run(placement, observers);
      score.value = step.makespan;
      score.over = {};
      for (const DeviceId d : problem_.cluster.devices())
        score.over += std::max(Bytes{}, step.devices[d].peak - problem_.cluster.device(d).memory);
      fits_ = score.over == Bytes{};
      note_peaks(step);
      return score;
    }

    void note_peaks(const StepResult& step) {
      peak_.assign(problem_.cluster.num_devices(), {});
      for (const DeviceId d : problem_.cluster.devices()) peak_[d] = step.devices[d].peak;
    }
    /// Makes the last simulated placement the base.
    void note_base() {
      std::swap(base_peak_, peak_);
      base_whole_ = whole_;
    }

    /// The start order of the last step, followed by the ops that had not started when it failed.
    void set_order() {
      std::swap(order_, started_.ops);
      const std::size_t num_ops = problem_.graph.num_ops();
      if (order_.size() == num_ops) return;
      IdVector<OpId, std::uint8_t> ran(num_ops, 0);
      for (const OpId v : order_) ran[v] = 1;
      for (const OpId v : problem_.graph.ops())
        if (ran[v] == 0) order_.push_back(v);
    }

    Problem problem_;
    Simulator simulator_;
    std::optional<StepEstimate> estimate_;  // of changes of the base
    std::optional<Simulator> unlimited_;    // created at the first placement that does not fit
    Placement base_;
    bool base_fits_ = true;
    bool base_whole_ = false;              // no op is misplaced, no group split
    IdVector<DeviceId, Bytes> base_peak_;  // zeros if memory is not counted
    bool fits_ = true, whole_ = false;     // the last placement that was simulated
    IdVector<DeviceId, Bytes> peak_;       // its peaks
    IdVector<DeviceId, Bytes> more_;       // scratch of may_fit()
    std::vector<OpId> order_;              // start order of the base
    StartOrder started_;                   // of the last attempt
    std::vector<OpMove> moved_;            // of the last attempt
  };
};

}  // namespace

std::unique_ptr<Objective> make_step_time(Options&) { return std::make_unique<StepTime>(); }

}  // namespace baechi
