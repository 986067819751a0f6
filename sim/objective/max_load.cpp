#include "sim/objective/max_load.h"

#include <algorithm>

#include "sim/cluster/mean_costs.h"
#include "sim/objective/objective.h"

namespace baechi {
namespace {

/// Adds up loads of one problem.
class Loads {
 public:
  explicit Loads(const Problem& problem)
      : problem_(problem),
        transfer_(mean_transfer(problem)),
        paid_for_(problem.cluster.num_devices(), nothing) {}

  const IdVector<DeviceId, DeviceLoad>& of(const Placement& placement) {
    const OpGraph& graph = problem_.graph;
    loads_.assign(problem_.cluster.num_devices(), {});
    std::ranges::fill(paid_for_, nothing);
    for (const OpId v : graph.ops()) {
      const DeviceId d = placement.device[v];
      part(d, graph.op(v).phase) += problem_.costs.compute(v, d);
    }
    for (const TensorId t : graph.tensors()) {
      const OpId producer = graph.tensor(t).producer;
      const DeviceId home = placement.device[producer];
      for (const EdgeId e : graph.readers(t)) {
        const DeviceId away = placement.device[graph.edge(e).dst];
        if (away == home || paid_for_[away] == t) continue;
        pay(t, home, graph.op(producer).phase);
        pay(t, away, graph.op(producer).phase);
      }
    }
    return loads_;
  }

 private:
  static constexpr TensorId nothing{~std::uint32_t{0}};

  Duration& part(DeviceId d, Phase phase) {
    return phase == Phase::forward ? loads_[d].forward : loads_[d].backward;
  }
  void pay(TensorId t, DeviceId d, Phase phase) {
    if (paid_for_[d] == t) return;
    paid_for_[d] = t;
    if (!problem_.cluster.device(d).is_core()) part(d, phase) += transfer_[t];
  }

  Problem problem_;
  IdVector<TensorId, Duration> transfer_;
  IdVector<DeviceId, TensorId> paid_for_;  // the last tensor each device paid for
  IdVector<DeviceId, DeviceLoad> loads_;
};

class MaxLoad final : public Objective {
 public:
  explicit MaxLoad(Options& o)
      : apart_(o.get("phases", {"together", "apart"},
                     "the largest forward + backward load; or the largest forward load and the "
                     "largest backward load, added up") == "apart") {}

  std::unique_ptr<Evaluator> on(const Problem& problem) const override {
    return std::make_unique<LargestLoad>(problem, apart_);
  }

 private:
  class LargestLoad final : public Evaluator {
   public:
    LargestLoad(const Problem& problem, bool apart)
        : problem_(problem), loads_(problem), apart_(apart) {}
    Score score(const Placement& placement) override {
      Score score = constraints(problem_, placement);
      Duration forward{}, backward{}, total{};
      for (const DeviceLoad& load : loads_.of(placement)) {
        forward = std::max(forward, load.forward);
        backward = std::max(backward, load.backward);
        total = std::max(total, load.total());
      }
      score.value = apart_ ? forward + backward : total;
      return score;
    }

   private:
    Problem problem_;
    Loads loads_;
    bool apart_;
  };

  bool apart_;
};

}  // namespace

IdVector<DeviceId, DeviceLoad> device_loads(const Problem& problem, const Placement& placement) {
  return Loads(problem).of(placement);
}

std::unique_ptr<Objective> make_max_load(Options& o) {
  return std::make_unique<MaxLoad>(o);
}

}  // namespace baechi
