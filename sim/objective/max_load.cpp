#include "sim/objective/objective.h"
#include "sim/objective/replicas.h"

namespace baechi {
namespace {

/// Computes the loads of placements of one problem.
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
      if (graph.lane(v) != compute_lane) continue;  // other lanes overlap with it
      const DeviceId d = placement.device[v];
      part(d, graph.op(v).phase) += problem_.costs.compute(v, d);
    }
    for (const TensorId t : graph.tensors()) {
      const OpId producer = graph.tensor(t).producer;
      const DeviceId home = placement.device[producer];
      for (const EdgeId e : graph.readers(t)) {
        const DeviceId receiver = placement.device[graph.edge(e).dst];
        if (receiver == home || paid_for_[receiver] == t) continue;
        pay(t, home, graph.op(producer).phase);
        pay(t, receiver, graph.op(producer).phase);
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
  IdVector<DeviceId, TensorId> paid_for_;  // the last tensor included in each device's load
  IdVector<DeviceId, DeviceLoad> loads_;
};

/// Incremental device_loads(): a move takes time in proportion to the edges of the moved op.
class LoadLedger {
 public:
  explicit LoadLedger(const Problem& problem)
      : problem_(problem), transfer_(mean_transfer(problem)) {}

  void place(const Placement& placement);
  void move(OpId v, DeviceId from, DeviceId to);
  const IdVector<DeviceId, DeviceLoad>& loads() const { return loads_; }

 private:
  template <int sign>
  void change(OpId v, DeviceId d);
  template <int sign>
  void change_pin(TensorId t, DeviceId d);
  Duration& part(DeviceId d, Phase phase) {
    return phase == Phase::forward ? loads_[d].forward : loads_[d].backward;
  }

  Problem problem_;
  IdVector<TensorId, Duration> transfer_;
  std::vector<std::uint32_t> pins_;  // [num_tensors, num_devices]: number of producer and readers
  IdVector<DeviceId, DeviceLoad> loads_;
};

/// The same of constraints().
class ConstraintLedger {
 public:
  explicit ConstraintLedger(const Problem& problem) : problem_(problem) {}

  void place(const Placement& placement);
  void move(OpId v, DeviceId from, DeviceId to);
  Score score() const;  ///< all but value, deadlock and guide

 private:
  template <int sign>
  void change(OpId v, DeviceId d);

  Problem problem_;
  IdVector<DeviceId, Bytes> weights_;
  std::size_t misplaced_ = 0, split_groups_ = 0;
  std::vector<std::uint32_t> members_;      // [num_groups + 1, num_devices]
  IdVector<GroupId, std::uint32_t> homes_;  // devices with members; [num_groups + 1]
};

void LoadLedger::move(OpId v, DeviceId from, DeviceId to) {
  change<-1>(v, from);
  change<1>(v, to);
}

void LoadLedger::place(const Placement& placement) {
  const std::size_t devices = problem_.cluster.num_devices();
  loads_.assign(devices, {});
  pins_.assign(problem_.graph.num_tensors() * devices, 0);
  for (const OpId v : problem_.graph.ops()) change<1>(v, placement.device[v]);
}

template <int sign>
void LoadLedger::change(OpId v, DeviceId d) {
  const OpGraph& graph = problem_.graph;
  if (graph.lane(v) == compute_lane)  // other lanes overlap with it
    part(d, graph.op(v).phase) += sign * problem_.costs.compute(v, d);
  for (const TensorId t : graph.outputs(v)) change_pin<sign>(t, d);
  for (const EdgeId e : graph.in_edges(v)) change_pin<sign>(graph.edge(e).tensor, d);
}

/// A device pays for a tensor's transfer if it has some but not all of its producer and readers.
template <int sign>
void LoadLedger::change_pin(TensorId t, DeviceId d) {
  const std::size_t all = problem_.graph.readers(t).size() + 1;
  std::uint32_t& here = pins_[index(t) * loads_.size() + index(d)];
  const bool paid = here > 0 && here < all;
  here += static_cast<std::uint32_t>(sign);
  const bool pays = here > 0 && here < all;
  if (paid == pays || problem_.cluster.device(d).is_core()) return;
  Duration& load = part(d, problem_.graph.op(problem_.graph.tensor(t).producer).phase);
  load += pays ? transfer_[t] : -transfer_[t];
}

void ConstraintLedger::move(OpId v, DeviceId from, DeviceId to) {
  change<-1>(v, from);
  change<1>(v, to);
}

void ConstraintLedger::place(const Placement& placement) {
  const std::size_t devices = problem_.cluster.num_devices();
  weights_.assign(devices, {});
  members_.assign((problem_.graph.num_groups() + 1) * devices, 0);
  homes_.assign(problem_.graph.num_groups() + 1, 0);
  misplaced_ = split_groups_ = 0;
  for (const OpId v : problem_.graph.ops()) change<1>(v, placement.device[v]);
}

template <int sign>
void ConstraintLedger::change(OpId v, DeviceId d) {
  const Op& op = problem_.graph.op(v);
  weights_[d] += sign * op.persistent;
  if (problem_.costs.compute(v, d) == cannot_run) misplaced_ += static_cast<std::size_t>(sign);
  if (op.group == no_group) return;
  std::uint32_t& here = members_[index(op.group) * weights_.size() + index(d)];
  const bool was_home = here > 0;
  here += static_cast<std::uint32_t>(sign);
  const bool is_home = here > 0;
  if (was_home == is_home) return;
  const bool was_split = homes_[op.group] > 1;
  homes_[op.group] += static_cast<std::uint32_t>(sign);
  const bool is_split = homes_[op.group] > 1;
  if (was_split != is_split) split_groups_ += static_cast<std::size_t>(is_split ? 1 : -1);
}

Score ConstraintLedger::score() const {
  Score score{.misplaced = misplaced_, .split_groups = split_groups_};
  if (!problem_.engine.enforce_memory) return score;
  for (const DeviceId d : problem_.cluster.devices()) {
    const Device& device = problem_.cluster.device(d);
    if (!device.is_core()) score.over += std::max(Bytes{}, weights_[d] - device.memory);
  }
  return score;
}

/// The 16-norm of the loads: a smooth maximum, which also falls when the next largest loads fall.
double soft_maximum(const IdVector<DeviceId, DeviceLoad>& loads, auto&& value) {
  double largest = 0.0;
  for (const DeviceLoad& load : loads)
    largest = std::max(largest, static_cast<double>(value(load).count()));
  if (largest <= 0.0) return 0.0;
  double sum = 0.0;
  for (const DeviceLoad& load : loads) {
    double x = static_cast<double>(value(load).count()) / largest;
    for (int i = 0; i < 4; ++i) x *= x;
    sum += x;
  }
  for (int i = 0; i < 4; ++i) sum = std::sqrt(sum);
  return largest * sum;
}

class LargestLoad final : public Evaluator {
 public:
  LargestLoad(const Problem& problem, bool apart)
      : problem_(problem), apart_(apart), loads_(problem) {}

  Score score(const Placement& placement) override {
    const IdVector<DeviceId, DeviceLoad>& loads = loads_.of(placement);
    const Score limits = constraints(problem_, placement);
    return has_replicas(placement) ? rate(limits, shared(loads, placement)) : rate(limits, loads);
  }

  Score begin(const Placement& placement) override {
    if (!moving_) moving_.emplace(problem_);
    moving_->loads.place(placement);
    moving_->constraints.place(placement);
    device_ = placement.device;
    attempted_.clear();
    return rate(moving_->constraints.score(), moving_->loads.loads());
  }

  Score attempt(const Placement& placement, std::span<const OpId> moved) override {
    for (const Moved& m : attempted_) move(m.op, m.to, m.from);
    attempted_.clear();
    for (const OpId v : moved) {
      attempted_.push_back({v, device_[v], placement.device[v]});
      move(v, device_[v], placement.device[v]);
    }
    return rate(moving_->constraints.score(), moving_->loads.loads());
  }

  void keep() override {
    for (const Moved& m : attempted_) device_[m.op] = m.to;
    attempted_.clear();
  }

 private:
  struct Ledgers {
    explicit Ledgers(const Problem& problem) : loads(problem), constraints(problem) {}
    LoadLedger loads;
    ConstraintLedger constraints;
  };
  struct Moved {
    OpId op;
    DeviceId from, to;
  };

  /// `loads` with the load of each replicated part divided among its devices.
  IdVector<DeviceId, DeviceLoad> shared(IdVector<DeviceId, DeviceLoad> loads,
                                        const Placement& placement) const {
    if (apart_) throw InputError("max_load: 'phases: apart' does not support replicated stages");
    const std::vector<DeviceClass> classes = device_classes(problem_);
    const Replicas replicas = replicas_of(problem_, classes, placement);
    const Replication costs = Replication::of(problem_, classes, replicas.micro_batches);
    IdVector<DeviceId, std::int64_t> weights(loads.size());
    for (const OpId v : problem_.graph.ops())
      weights[placement.device[v]] += problem_.graph.op(v).persistent.count;
    for (const std::vector<DeviceId>& part : replicas.parts) {
      const DeviceId first = part.front();
      const auto cls = std::ranges::find_if(classes, [&](const DeviceClass& c) {
        return std::ranges::binary_search(c.devices, first);
      });
      const auto count = static_cast<std::int64_t>(part.size());
      const std::int64_t load =
          replica_load(loads[first].total().count(), weights[first], count,
                       costs.exchange(static_cast<std::size_t>(cls - classes.begin()), count));
      for (const DeviceId d : part) loads[d] = {.forward = Duration{load}};
    }
    return loads;
  }

  void move(OpId v, DeviceId from, DeviceId to) {
    moving_->loads.move(v, from, to);
    moving_->constraints.move(v, from, to);
  }

  Score rate(Score score, const IdVector<DeviceId, DeviceLoad>& loads) const {
    Duration forward{}, backward{}, total{};
    for (const DeviceLoad& load : loads) {
      forward = std::max(forward, load.forward);
      backward = std::max(backward, load.backward);
      total = std::max(total, load.total());
    }
    score.value = apart_ ? forward + backward : total;
    score.guide = apart_ ? soft_maximum(loads, [](const DeviceLoad& l) { return l.forward; }) +
                               soft_maximum(loads, [](const DeviceLoad& l) { return l.backward; })
                         : soft_maximum(loads, [](const DeviceLoad& l) { return l.total(); });
    return score;
  }

  Problem problem_;
  bool apart_;
  Loads loads_;
  std::optional<Ledgers> moving_;    // from the first begin() on
  IdVector<OpId, DeviceId> device_;  // of the base placement
  std::vector<Moved> attempted_;     // moves relative to the base
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
  bool apart_;
};

}  // namespace

IdVector<DeviceId, DeviceLoad> device_loads(const Problem& problem, const Placement& placement) {
  return Loads(problem).of(placement);
}

std::unique_ptr<Objective> make_max_load(Options& o) { return std::make_unique<MaxLoad>(o); }

}  // namespace baechi
