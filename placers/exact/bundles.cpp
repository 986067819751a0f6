#include "placers/exact/bundles.h"

#include <boost/graph/compressed_sparse_row_graph.hpp>
#include <boost/graph/strong_components.hpp>
#include <numeric>

namespace baechi::exact {

/// Joins units step by step and recomputes the bundles after each step.
class BundleMaker {
 public:
  BundleMaker(Bundles& bundles, const Problem& problem, const ColocationUnits& units,
              const std::vector<DeviceClass>& classes, BundleRules rules)
      : bundles_(bundles),
        rules_(rules),
        graph_(problem.graph),
        units_(units),
        transfer_(mean_transfer(problem)),
        parent_(units.size()) {
    std::iota(parent_.begin(), parent_.end(), 0U);
    for (const DeviceClass& cls : classes) {
      IdVector<UnitId, Duration> times(units.size()), later(units.size());
      for (const OpId v : graph_.ops()) {
        const Duration time = problem.costs.compute(v, cls.devices.front());
        if (time != cannot_run && graph_.op(v).phase != Phase::forward) later[units.of(v)] += time;
        Duration& sum = times[units.of(v)];
        sum = time == cannot_run || sum < Duration::zero() ? Duration{-1} : sum + time;
      }
      times_.push_back(std::move(times));
      later_times_.push_back(std::move(later));
    }
    order_units();
    Bytes all{}, least{std::int64_t{1} << 62};
    for (const OpId v : graph_.ops()) all += graph_.op(v).persistent;
    for (const DeviceClass& cls : classes) least = std::min(least, cls.memory);
    memory_binds_ = all > least || rules_.weights_cost;
  }

  void make() {
    if (rules_.join_cycles) join_cycles();
    tabulate();
    if (rules_.leaves == BundleRules::Leaves::apart) return;
    while (join_leaves(rules_.leaves == BundleRules::Leaves::all)) tabulate();
  }

 private:
  using Pair = std::pair<std::uint32_t, std::uint32_t>;

  std::uint32_t root(std::uint32_t u) {
    while (parent_[u] != u) u = parent_[u] = parent_[parent_[u]];
    return u;
  }
  void join(std::uint32_t a, std::uint32_t b) { parent_[root(b)] = root(a); }

  static std::uint32_t number(auto id) { return static_cast<std::uint32_t>(index(id)); }

  /// Which unit comes before which, and which have an edge from Phase::forward to a later phase.
  void order_units() {
    const auto forward = [&](OpId v) { return graph_.op(v).phase == Phase::forward; };
    IdVector<UnitId, char> orphan(units_.size(), true);
    feeds_backward_ = IdVector<UnitId, char>(units_.size(), false);
    for (const OpId v : graph_.ops())
      if (forward(v)) orphan[units_.of(v)] = false;
    for (const EdgeId e : graph_.edges()) {
      const auto [src, dst, tensor] = graph_.edge(e);
      const UnitId a = units_.of(src), b = units_.of(dst);
      if (forward(src) && !forward(dst)) feeds_backward_[a] = true;
      if (a == b) continue;
      const bool data = rules_.order == BundleRules::Order::data;
      if (data || (forward(src) && forward(dst))) edges_.emplace_back(number(a), number(b));
      if (!data && !forward(src) && !forward(dst) && (orphan[a] || orphan[b]))
        edges_.emplace_back(number(b), number(a));
    }
    std::ranges::sort(edges_);
    edges_.erase(std::ranges::unique(edges_).begin(), edges_.end());
  }

  void join_cycles() {
    using Graph = boost::compressed_sparse_row_graph<boost::directedS>;
    const Graph graph(boost::edges_are_unsorted_multi_pass, edges_.begin(), edges_.end(),
                      units_.size());
    std::vector<std::size_t> component(units_.size());
    boost::strong_components(graph, boost::make_iterator_property_map(
                                        component.begin(), get(boost::vertex_index, graph)));
    std::vector<std::uint32_t> first(units_.size(), ~0U);
    for (const UnitId u : units_.units()) {
      std::uint32_t& representative = first[component[index(u)]];
      if (representative == ~0U) representative = number(u);
      join(representative, number(u));
    }
  }

  void tabulate() {
    IdVector<UnitId, BundleId> bundle(units_.size());
    std::vector<BundleId> of_set(units_.size(), none);
    std::uint32_t count = 0;
    for (const UnitId u : units_.units()) {
      BundleId& b = of_set[root(number(u))];
      if (b == none) b = BundleId{count++};
      bundle[u] = b;
    }
    bundles_.bundle_ = IdVector<OpId, BundleId>(graph_.num_ops());
    for (const OpId v : graph_.ops()) bundles_.bundle_[v] = bundle[units_.of(v)];
    add_up(bundle, count);
    draw_order(bundle, count);
    draw_nets(count);
  }

  void add_up(const IdVector<UnitId, BundleId>& bundle, std::size_t count) {
    bundles_.weights_.assign(count, {});
    for (const UnitId u : units_.units())
      bundles_.weights_[bundle[u]] += units_.needs(u).persistent;
    bundles_.times_.assign(times_.size(), IdVector<BundleId, Duration>(count));
    bundles_.later_times_ = bundles_.times_;
    for (std::size_t s = 0; s < times_.size(); ++s) {
      for (const UnitId u : units_.units()) {
        bundles_.later_times_[s][bundle[u]] += later_times_[s][u];
        Duration& sum = bundles_.times_[s][bundle[u]];
        sum = times_[s][u] < Duration::zero() || sum < Duration::zero() ? Duration{-1}
                                                                        : sum + times_[s][u];
      }
    }
    feeds_backward_of_bundle_.assign(count, false);
    for (const UnitId u : units_.units())
      if (feeds_backward_[u]) feeds_backward_of_bundle_[bundle[u]] = true;
  }

  void draw_order(const IdVector<UnitId, BundleId>& bundle, std::size_t count) {
    std::vector<std::pair<BundleId, BundleId>> pairs;
    for (const auto& [a, b] : edges_)
      if (bundle[UnitId{a}] != bundle[UnitId{b}])
        pairs.emplace_back(bundle[UnitId{a}], bundle[UnitId{b}]);
    std::ranges::sort(pairs);
    pairs.erase(std::ranges::unique(pairs).begin(), pairs.end());
    bundles_.order_ = BundleOrder(count, pairs);
  }

  /// Merges nets with the same pins.
  void draw_nets(std::size_t count) {
    std::vector<Bundles::Net> all;
    for (const TensorId t : graph_.tensors()) {
      if (transfer_[t] == Duration::zero()) continue;
      const OpId producer = graph_.tensor(t).producer;
      Bundles::Net net{.time = transfer_[t], .pins = {bundles_.bundle_[producer]}};
      if (graph_.op(producer).phase != Phase::forward) net.later_time = net.time;
      for (const EdgeId e : graph_.readers(t))
        net.pins.push_back(bundles_.bundle_[graph_.edge(e).dst]);
      std::ranges::sort(net.pins);
      net.pins.erase(std::ranges::unique(net.pins).begin(), net.pins.end());
      if (net.pins.size() > 1) all.push_back(std::move(net));
    }
    std::ranges::stable_sort(all, {}, &Bundles::Net::pins);
    bundles_.nets_.clear();
    for (Bundles::Net& net : all) {
      if (bundles_.nets_.empty() || bundles_.nets_.back().pins != net.pins) {
        bundles_.nets_.push_back(std::move(net));
        continue;
      }
      bundles_.nets_.back().time += net.time;
      bundles_.nets_.back().later_time += net.later_time;
    }
    bundles_.nets_of_.assign(count, {});
    for (std::uint32_t n = 0; n < bundles_.nets_.size(); ++n)
      for (const BundleId b : bundles_.nets_[n].pins) bundles_.nets_of_[b].push_back(n);
  }

  /// Joins each leaf with its neighbour. False if there was none.
  bool join_leaves(bool all) {
    bundles_.sources_left_ = bundles_.sinks_left_ = 0;
    std::vector<std::uint32_t> unit_of_bundle(bundles_.size());
    for (const OpId v : graph_.ops()) unit_of_bundle[index(bundles_.of(v))] = number(units_.of(v));
    bool joined = false;
    for (const BundleId b : bundles_.bundles()) {
      const auto before = bundles_.before(b), after = bundles_.after(b);
      if (before.size() + after.size() != 1 || !takes_no_time(b)) continue;
      const BundleId neighbour = before.empty() ? after.front() : before.front();
      if (!runs_where(b, neighbour)) continue;
      if (harmless(b, neighbour) || (all && !feeds_backward_of_bundle_[b])) {
        join(unit_of_bundle[index(b)], unit_of_bundle[index(neighbour)]);
        joined = true;
      } else if (!feeds_backward_of_bundle_[b]) {
        ++(before.empty() ? bundles_.sources_left_ : bundles_.sinks_left_);
      }
    }
    return joined;
  }

  bool takes_no_time(BundleId b) const {
    return std::ranges::all_of(bundles_.times_,
                               [b](const auto& times) { return times[b] <= Duration::zero(); });
  }
  bool runs_where(BundleId b, BundleId other) const {
    return std::ranges::all_of(bundles_.times_, [&](const auto& times) {
      return times[b] >= Duration::zero() || times[other] < Duration::zero();
    });
  }
  /// Whether `b`, of no time, can go where `neighbour` is in any plan without making it worse: then
  /// each net of `b` has one device less to reach, or the same.
  bool harmless(BundleId b, BundleId neighbour) const {
    if (memory_binds_ && bundles_.weights_[b] > Bytes{}) return false;
    return std::ranges::all_of(bundles_.nets_of_[b], [&](std::uint32_t n) {
      return std::ranges::binary_search(bundles_.nets_[n].pins, neighbour);
    });
  }

  static constexpr BundleId none{~std::uint32_t{0}};

  Bundles& bundles_;
  BundleRules rules_;
  const OpGraph& graph_;
  const ColocationUnits& units_;
  IdVector<TensorId, Duration> transfer_;
  std::vector<std::uint32_t> parent_;              // of units: a forest whose trees are the bundles
  std::vector<IdVector<UnitId, Duration>> times_;  // [classes][units]; < 0: cannot run
  std::vector<IdVector<UnitId, Duration>> later_times_;
  std::vector<Pair> edges_;  // of units, sorted
  IdVector<UnitId, char> feeds_backward_;
  IdVector<BundleId, char> feeds_backward_of_bundle_;
  bool memory_binds_ = false;
};

Bundles::Bundles(const Problem& problem, const ColocationUnits& units,
                 const std::vector<DeviceClass>& classes, BundleRules rules) {
  BundleMaker(*this, problem, units, classes, rules).make();
}

}  // namespace baechi::exact
