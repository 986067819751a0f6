#include "sim/objective/objective.h"
#include "sim/objective/replicas.h"

namespace baechi {
namespace {

/// Evaluates placements of one problem as invocations: an op on a core, or a part on an
/// accelerator.
class Invocations {
 public:
  explicit Invocations(const Problem& problem)
      : problem_(problem), transfer_(mean_transfer(problem)), step_(problem.graph.num_ops()) {}

  /// Returns nothing if invocations wait for each other in a cycle.
  std::optional<Duration> latency(const Placement& placement, const Parts& part, bool in_turn) {
    number(placement, part, in_turn);
    add_times(placement);
    return run();
  }

 private:
  static constexpr std::uint32_t none = ~0U;

  struct Invocation {
    Duration takes{};
    Duration ready{}, end{};
    std::size_t waits_for = 0;  // edges from other invocations, and the preceding invocation
    std::vector<OpId> ops{};
    std::uint32_t paid_for = none;  // the last tensor whose transfer is included in `takes`
    std::uint32_t next = none;      // the next one of its accelerator, if these run in order
  };

  void number(const Placement& placement, const Parts& part, bool in_turn) {
    steps_.clear();
    IdVector<DeviceId, std::vector<std::uint32_t>> step_of_part(problem_.cluster.num_devices());
    for (const OpId v : problem_.graph.ops()) {
      const DeviceId d = placement.device[v];
      if (problem_.cluster.device(d).is_core()) {
        step_[v] = static_cast<std::uint32_t>(steps_.size());
        steps_.push_back({.ops = {v}});
        continue;
      }
      auto& steps = step_of_part[d];
      if (steps.size() <= part[v]) steps.resize(part[v] + 1, none);
      if (steps[part[v]] == none) {
        steps[part[v]] = static_cast<std::uint32_t>(steps_.size());
        steps_.emplace_back();
      }
      step_[v] = steps[part[v]];
      steps_[step_[v]].ops.push_back(v);
    }
    if (!in_turn) return;
    for (const auto& steps : step_of_part) {
      std::uint32_t before = none;
      for (const std::uint32_t s : steps) {
        if (s == none) continue;
        if (before != none) {
          steps_[before].next = s;
          ++steps_[s].waits_for;
        }
        before = s;
      }
    }
  }

  void add_times(const Placement& placement) {
    const OpGraph& graph = problem_.graph;
    for (const OpId v : graph.ops())
      steps_[step_[v]].takes += problem_.costs.compute(v, placement.device[v]);
    for (const TensorId t : graph.tensors()) {
      const OpId producer = graph.tensor(t).producer;
      for (const EdgeId e : graph.readers(t)) {
        const OpId reader = graph.edge(e).dst;
        if (step_[reader] == step_[producer]) continue;
        pay(t, producer, placement);
        pay(t, reader, placement);
        ++steps_[step_[reader]].waits_for;
      }
    }
  }

  void pay(TensorId t, OpId v, const Placement& placement) {
    Invocation& step = steps_[step_[v]];
    if (problem_.cluster.device(placement.device[v]).is_core() || step.paid_for == index(t)) return;
    step.paid_for = static_cast<std::uint32_t>(index(t));
    step.takes += transfer_[t];
  }

  std::optional<Duration> run() {
    const OpGraph& graph = problem_.graph;
    Duration latency{};
    std::vector<std::uint32_t> ready;
    for (std::uint32_t s = 0; s < steps_.size(); ++s)
      if (steps_[s].waits_for == 0) ready.push_back(s);
    std::size_t done = 0;
    for (; done < ready.size(); ++done) {
      Invocation& step = steps_[ready[done]];
      step.end = step.ready + step.takes;
      latency = std::max(latency, step.end);
      const auto pass_on = [&](std::uint32_t next) {
        steps_[next].ready = std::max(steps_[next].ready, step.end);
        if (--steps_[next].waits_for == 0) ready.push_back(next);
      };
      for (const OpId v : step.ops) {
        for (const EdgeId e : graph.out_edges(v)) {
          const std::uint32_t next = step_[graph.edge(e).dst];
          if (next != ready[done]) pass_on(next);
        }
      }
      if (step.next != none) pass_on(step.next);
    }
    return done == steps_.size() ? std::optional(latency) : std::nullopt;
  }

  Problem problem_;
  IdVector<TensorId, Duration> transfer_;
  IdVector<OpId, std::uint32_t> step_;  // into steps_
  std::vector<Invocation> steps_;
};

/// An accelerator's ops are one part unless a path between two of them leaves the accelerator: op v
/// belongs to part 1 + the largest number of departures on a path to it. Parts of one accelerator
/// are ordered by data dependencies only.
/// Source: Tarnawski et al., NeurIPS 2020, latency of a given split.
class WithoutTurns final : public Evaluator {
 public:
  explicit WithoutTurns(const Problem& problem)
      : problem_(problem), invocations_(problem), part_(problem.graph.num_ops()) {}

  Score score(const Placement& placement) override {
    if (has_replicas(placement)) throw InputError("latency: replicated stages are not supported");
    Score score = constraints(problem_, placement);
    for (const DeviceId d : problem_.cluster.devices())
      if (!problem_.cluster.device(d).is_core()) cut(placement, d);
    const auto latency = invocations_.latency(placement, part_, false);
    score.value = latency.value_or(Duration{});
    score.deadlock = !latency;
    return score;
  }

 private:
  void cut(const Placement& placement, DeviceId d) {
    const OpGraph& graph = problem_.graph;
    IdVector<OpId, std::uint32_t> part(graph.num_ops());
    for (const OpId v : graph.ops()) {
      const bool here = placement.device[v] == d;
      part[v] = here ? 1 : 0;
      for (const OpId u : graph.predecessors(v))
        part[v] = std::max(part[v], part[u] + (here && placement.device[u] != d ? 1U : 0U));
      if (here) part_[v] = part[v];
    }
  }

  Problem problem_;
  Invocations invocations_;
  Parts part_;
};

class Latency final : public Objective {
 public:
  std::unique_ptr<Evaluator> on(const Problem& problem) const override {
    if (!problem.graph.plain())
      throw InputError("latency: graphs with lanes or collectives are not supported");
    return std::make_unique<WithoutTurns>(problem);
  }
};

}  // namespace

std::optional<Duration> latency_in_turn(const Problem& problem, const Placement& placement,
                                        const Parts& part) {
  return Invocations(problem).latency(placement, part, true);
}

std::unique_ptr<Objective> make_latency(Options&) { return std::make_unique<Latency>(); }

}  // namespace baechi
