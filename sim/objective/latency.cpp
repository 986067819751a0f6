#include <algorithm>

#include "sim/cluster/mean_costs.h"
#include "sim/objective/objective.h"

namespace baechi {
namespace {

/// Latency of one sample where an accelerator runs parts of the graph as a whole: a part starts
/// when all it reads from elsewhere is done, takes these transfers, its ops and the transfers of
/// what is read elsewhere, one after another, and all its ops are done together. An op on a core
/// starts when all it reads is done; there are cores for all.
///
/// An accelerator's ops are one part as long as no path between two of them leaves it; where paths
/// come back, op v belongs to part 1 + the most departures on any path to it. Parts of one
/// accelerator do not wait for each other but for data.
/// Source: Tarnawski et al., NeurIPS 2020, latency of a given split.
class Invocations final : public Evaluator {
 public:
  explicit Invocations(const Problem& problem)
      : problem_(problem), transfer_(mean_transfer(problem)), step_(problem.graph.num_ops()) {}

  Score score(const Placement& placement) override {
    Score score = constraints(problem_, placement);
    cut(placement);
    add_times(placement);
    score.deadlock = !run(score.value);
    return score;
  }

 private:
  /// An op on a core, or a part: what starts and ends as one.
  struct Step {
    Duration takes{};
    Duration ready{}, end{};
    std::size_t waits_for = 0;     // of its inputs' producers, an edge each
    std::vector<OpId> ops{};       // its own
    std::uint32_t paid_for = ~0U;  // the last tensor it paid for
  };

  /// Numbers the steps.
  void cut(const Placement& placement) {
    const OpGraph& graph = problem_.graph;
    steps_.clear();
    IdVector<OpId, std::uint32_t> part(graph.num_ops());
    for (const DeviceId d : problem_.cluster.devices()) {
      std::vector<std::uint32_t> step_of_part;
      for (const OpId v : graph.ops()) {
        const bool here = placement.device[v] == d;
        if (here && problem_.cluster.device(d).is_core()) {
          begin_step(v);
          continue;
        }
        part[v] = here ? 1 : 0;
        for (const OpId u : graph.predecessors(v))
          part[v] = std::max(part[v], part[u] + (here && placement.device[u] != d ? 1U : 0U));
        if (!here) continue;
        while (step_of_part.size() <= part[v]) step_of_part.push_back(~0U);
        if (step_of_part[part[v]] == ~0U) {
          step_of_part[part[v]] = begin_step(v);
        } else {
          step_[v] = step_of_part[part[v]];
          steps_[step_[v]].ops.push_back(v);
        }
      }
    }
  }

  std::uint32_t begin_step(OpId v) {
    step_[v] = static_cast<std::uint32_t>(steps_.size());
    steps_.push_back({.ops = {v}});
    return step_[v];
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
    Step& step = steps_[step_[v]];
    if (problem_.cluster.device(placement.device[v]).is_core() || step.paid_for == index(t)) return;
    step.paid_for = static_cast<std::uint32_t>(index(t));
    step.takes += transfer_[t];
  }

  /// False if steps wait for each other. `latency` becomes the last end.
  bool run(Duration& latency) {
    const OpGraph& graph = problem_.graph;
    std::vector<std::uint32_t> ready;
    for (std::uint32_t s = 0; s < steps_.size(); ++s)
      if (steps_[s].waits_for == 0) ready.push_back(s);
    std::size_t done = 0;
    for (; done < ready.size(); ++done) {
      Step& step = steps_[ready[done]];
      step.end = step.ready + step.takes;
      latency = std::max(latency, step.end);
      for (const OpId v : step.ops) {
        for (const EdgeId e : graph.out_edges(v)) {
          const std::uint32_t next = step_[graph.edge(e).dst];
          if (next == ready[done]) continue;
          steps_[next].ready = std::max(steps_[next].ready, step.end);
          if (--steps_[next].waits_for == 0) ready.push_back(next);
        }
      }
    }
    return done == steps_.size();
  }

  Problem problem_;
  IdVector<TensorId, Duration> transfer_;
  IdVector<OpId, std::uint32_t> step_;  // into steps_
  std::vector<Step> steps_;
};

class Latency final : public Objective {
 public:
  std::unique_ptr<Evaluator> on(const Problem& problem) const override {
    return std::make_unique<Invocations>(problem);
  }
};

}  // namespace

std::unique_ptr<Objective> make_latency(Options&) {
  return std::make_unique<Latency>();
}

}  // namespace baechi
