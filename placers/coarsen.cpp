#include <numeric>

#include "placers/interface/colocation.h"
#include "placers/interface/placer.h"
#include "placers/list/booked_transfers.h"
#include "sim/graph/analysis.h"

namespace baechi {
namespace {

using ClusterId = std::uint32_t;
constexpr ClusterId no_cluster{~std::uint32_t{0}};
constexpr DeviceId unplaced{~std::uint32_t{0}};

/// Parameters of the coarsening.
struct Joining {
  double patience =
      1.0;  ///< an op joins its producer if it takes at most this times the transfer saved
  double parts = 8.0;  ///< no cluster takes longer than the work of a device / parts
};

/// Sets of ops that go to one device.
struct Clusters {
  IdVector<OpId, ClusterId> of{};  ///< [num_ops]
  std::vector<Duration> time{};    ///< [clusters], summed over the ops
  std::vector<UnitNeeds> needs{};  ///< [clusters]

  ClusterId add() {
    time.emplace_back();
    needs.emplace_back();
    return static_cast<ClusterId>(time.size() - 1);
  }
};

/// Costs that all attempts share.
struct Costs {
  explicit Costs(const Problem& p)
      : problem(p),
        compute(mean_compute(p)),
        transfer(mean_transfer(p)),
        limit(memory_limits(p)),
        work(std::accumulate(compute.begin(), compute.end(), Duration{})) {
    const Bytes upper = peak_upper_bound(p.graph);
    ample = std::ranges::all_of(limit, [&](Bytes b) { return b >= upper; });
  }

  const Problem& problem;
  IdVector<OpId, Duration> compute;
  IdVector<TensorId, Duration> transfer;
  IdVector<DeviceId, Bytes> limit;
  Duration work;
  bool ample = false;  ///< no placement runs out of memory
};

/// In topological order, each op joins the op that it reads most from, unless that cluster is full,
/// or the op could run in parallel with its siblings and the transfer costs no more than that.
/// Members of a colocation group are together. Linear in ops and edges.
Clusters join(const Costs& costs, const Joining& how) {
  const OpGraph& graph = costs.problem.graph;
  const auto devices = static_cast<double>(costs.problem.cluster.num_devices());
  const Duration longest{
      static_cast<std::int64_t>(static_cast<double>(costs.work.count()) / devices / how.parts)};
  const Bytes largest{std::ranges::min_element(costs.limit)->count / 8};
  Clusters clusters{.of = IdVector<OpId, ClusterId>(graph.num_ops())};
  std::vector<ClusterId> of_group(graph.num_groups() + 1, no_cluster);
  std::vector<bool> followed(graph.num_ops(), false);  // a reader has joined this op
  for (const OpId v : graph.ops()) {
    const Op& op = graph.op(v);
    const Bytes bytes = footprint(graph, v);
    ClusterId into = of_group[index(op.group)];
    if (into == no_cluster) {
      OpId nearest = no_op;
      Duration saved{};
      for (const EdgeId e : graph.in_edges(v)) {
        const Edge& edge = graph.edge(e);
        if (nearest != no_op && costs.transfer[edge.tensor] <= saved) continue;
        nearest = edge.src;
        saved = costs.transfer[edge.tensor];
      }
      if (nearest != no_op) {
        const ClusterId there = clusters.of[nearest];
        const bool room = clusters.time[there] + costs.compute[v] <= longest &&
                          (costs.ample || clusters.needs[there].footprint + bytes <= largest);
        const bool worth = static_cast<double>(costs.compute[v].count()) <=
                           how.patience * static_cast<double>(saved.count());
        if (room && (worth || !followed[index(nearest)])) {
          into = there;
          followed[index(nearest)] = true;
        }
      }
      if (into == no_cluster) into = clusters.add();
      if (op.group != no_group) of_group[index(op.group)] = into;
    }
    clusters.of[v] = into;
    clusters.time[into] += costs.compute[v];
    UnitNeeds& needs = clusters.needs[into];
    needs.persistent += op.persistent;
    needs.working = std::max(needs.working, bytes - op.persistent);
    needs.footprint += bytes;
  }
  return clusters;
}

/// A list schedule: ops in the order of their ids, each on the device of its cluster. The first op
/// of a cluster chooses the device on which the whole cluster would end first if its other inputs
/// came in time.
class ClusterSchedule {
 public:
  /// `share`: the fraction of each device's memory that footprints may take; 0: only weights and
  /// the largest op count.
  ClusterSchedule(const Costs& costs, const Clusters& clusters, double share)
      : costs_(costs),
        p_(costs.problem),
        clusters_(clusters),
        share_(share),
        floor_(p_),
        footprint_(p_.cluster.num_devices()),
        home_(clusters.time.size(), unplaced),
        transfers_(p_, p_.engine.transfers),
        free_(p_.cluster.num_devices()) {}

  /// Nothing if a cluster fits on no device.
  std::optional<Duration> make() {
    TimePoint last{};
    for (const OpId v : p_.graph.ops()) {
      DeviceId& home = home_[clusters_.of[v]];
      transfers_.find_inputs(v);
      if (home == unplaced) home = best_device(v);
      if (home == unplaced) return std::nullopt;
      const TimePoint start = std::max(free_[home], transfers_.book(v, home));
      free_[home] = start + p_.costs.compute(v, home);
      transfers_.schedule(v, home, free_[home]);
      last = std::max(last, free_[home]);
    }
    return last.time_since_epoch();
  }

  Placement placement() const {
    Placement result{.device = IdVector<OpId, DeviceId>(p_.graph.num_ops())};
    for (const OpId v : p_.graph.ops()) result.device[v] = home_[clusters_.of[v]];
    return result;
  }

 private:
  DeviceId best_device(OpId v) {
    const ClusterId c = clusters_.of[v];
    DeviceId best = unplaced;
    TimePoint best_end{};
    for (const DeviceId d : p_.cluster.devices()) {
      if (!costs_.ample && !fits(c, d)) continue;
      const Duration own = p_.costs.compute(v, d);
      if (own == cannot_run) continue;
      const TimePoint start = std::max(free_[d], transfers_.earliest(v, d));
      const TimePoint end = start + clusters_.time[c] - costs_.compute[v] + own;
      if (best != unplaced && end >= best_end) continue;
      best = d;
      best_end = end;
    }
    if (best == unplaced) return unplaced;
    floor_.add(clusters_.needs[c], best);
    footprint_[best] += clusters_.needs[c].footprint;
    return best;
  }
  bool fits(ClusterId c, DeviceId d) const {
    if (!floor_.fits(clusters_.needs[c], d)) return false;
    if (share_ == 0.0) return true;
    return static_cast<double>((footprint_[d] + clusters_.needs[c].footprint).count) <=
           share_ * static_cast<double>(costs_.limit[d].count);
  }

  const Costs& costs_;
  const Problem& p_;
  const Clusters& clusters_;
  double share_;
  MemoryFloor floor_;
  IdVector<DeviceId, Bytes> footprint_;
  std::vector<DeviceId> home_;  // [clusters]
  list::BookedTransfers transfers_;
  IdVector<DeviceId, TimePoint> free_;
};

/// Joins ops along heavy tensors, then places the clusters by earliest finish; of several
/// coarsenings the shortest plan wins. A step that may run out of memory is simulated; if it does,
/// the next plan is tried.
/// Source: the idea of order-preserving coarsening: Celeritas (arXiv 2208.00184), Mercury.
/// Differs: clusters fix a device, not a time; ops are scheduled one by one.
class Coarsen final : public Placer {
 public:
  Placement place(const Problem& p, std::uint64_t /*seed*/) const override {
    const Costs costs(p);
    std::vector<Planned> plans;
    add_single(costs, plans);
    const bool large = p.graph.num_ops() > many_ops;
    for (const Joining& how : std::span(joinings).first(large ? 2 : 3)) {
      auto clusters = std::make_shared<const Clusters>(join(costs, how));
      add_plan(costs, std::move(clusters), 0.0, plans);
    }
    while (!plans.empty()) {
      const auto shortest = std::ranges::min_element(plans, {}, &Planned::length);
      Planned plan = std::move(*shortest);
      plans.erase(shortest);
      if (!costs.ample && simulate(p, plan.placement).oom) {
        if (plan.clusters && plan.share == 0.0) add_plan(costs, plan.clusters, 1.0, plans);
        continue;
      }
      plan.placement.facts = {
          {"planned_step_us", to_us(plan.length)},
          {"clusters", plan.clusters ? static_cast<double>(plan.clusters->time.size()) : 1.0}};
      return std::move(plan.placement);
    }
    throw InfeasibleError("coarsen: no plan fits");
  }

 private:
  struct Planned {
    Duration length{};
    Placement placement{};
    std::shared_ptr<const Clusters> clusters{};  ///< null: all on one device
    double share = 0.0;
  };
  static constexpr std::size_t many_ops =
      10'000;  ///< beyond, the third coarsening is not worth its time
  static constexpr std::array<Joining, 3> joinings{{{0.25, 64.0}, {2.0, 16.0}, {16.0, 4.0}}};

  /// The plan of all ops on the device that runs them fastest.
  static void add_single(const Costs& costs, std::vector<Planned>& plans) {
    const Problem& p = costs.problem;
    std::optional<Planned> best;
    for (const DeviceId d : p.cluster.devices()) {
      if (index(d) > 0 && p.costs.same_compute(DeviceId{0}, d) &&
          costs.limit[d] <= costs.limit[DeviceId{0}])
        continue;
      Duration sum{};
      for (const OpId v : p.graph.ops()) sum = std::min(cannot_run, sum + p.costs.compute(v, d));
      if (sum == cannot_run || (best && sum >= best->length)) continue;
      best = {sum, {.device = IdVector<OpId, DeviceId>(p.graph.num_ops(), d)}};
    }
    if (best) plans.push_back(*std::move(best));
  }
  static void add_plan(const Costs& costs, std::shared_ptr<const Clusters> clusters, double share,
                       std::vector<Planned>& plans) {
    ClusterSchedule schedule(costs, *clusters, share);
    if (const std::optional<Duration> length = schedule.make())
      plans.push_back({*length, schedule.placement(), std::move(clusters), share});
  }
};

}  // namespace

std::unique_ptr<Placer> make_coarsen(Options&) { return std::make_unique<Coarsen>(); }

}  // namespace baechi
