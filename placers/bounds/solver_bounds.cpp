#include "placers/bounds/solver_bounds.h"

#include <tuple>

#include "placers/exact/pipelines.h"
#include "placers/interface/registry.h"
#include "placers/sct/favourite_child.h"
#include "placers/solver/linear_program.h"

namespace baechi::bounds {
namespace {

constexpr Duration never = Duration::max();

/// `ns` rounded up after its numerical error is subtracted: the bounded time is a whole number and
/// must not be exceeded.
Duration as_bound(double ns) {
  return Duration{static_cast<std::int64_t>(std::ceil(std::max(ns, 0.0) * (1.0 - 1e-9)))};
}

IdVector<OpId, Duration> least_times(const Problem& p) {
  IdVector<OpId, Duration> least(p.graph.num_ops(), never);
  for (const OpId v : p.graph.ops())
    for (const DeviceId d : p.cluster.devices())
      least[v] = std::min(least[v], p.costs.compute(v, d));
  return least;
}

/// The least transfer time of each tensor between any two devices. [num_tensors]
IdVector<TensorId, Duration> least_transfers(const Problem& p) {
  std::vector<std::pair<DeviceId, DeviceId>> pairs;  // one pair per class of link
  for (const DeviceId src : p.cluster.devices()) {
    for (const DeviceId dst : p.cluster.devices()) {
      const auto same = [&](const auto& pair) {
        return p.cluster.link(pair.first, pair.second) == p.cluster.link(src, dst);
      };
      if (src != dst && std::ranges::none_of(pairs, same)) pairs.emplace_back(src, dst);
    }
  }
  IdVector<TensorId, Duration> least(p.graph.num_tensors(), pairs.empty() ? Duration{} : never);
  for (const TensorId t : p.graph.tensors()) {
    if (p.graph.instant(t)) least[t] = Duration{};
    for (const auto& [src, dst] : pairs)
      least[t] = std::min(least[t], p.costs.transfer(t, src, dst));
  }
  return least;
}

class LeastTwo {
 public:
  void add(Duration time) {
    if (time < first_) std::swap(time, first_);
    second_ = std::min(second_, time);
  }
  /// The smallest of the added times except `one`.
  Duration without(Duration one) const { return one == first_ ? second_ : first_; }

 private:
  Duration first_ = never, second_ = never;
};

/// One edge per pair of ops, sorted by source and target, with the least transfer time of its
/// tensors.
std::vector<SctGraph::Edge> edges_of(const Problem& p) {
  const IdVector<TensorId, Duration> transfer = least_transfers(p);
  std::vector<SctGraph::Edge> edges;
  for (const EdgeId e : p.graph.edges()) {
    const Edge& edge = p.graph.edge(e);
    edges.push_back({static_cast<std::uint32_t>(index(edge.src)),
                     static_cast<std::uint32_t>(index(edge.dst)), transfer[edge.tensor]});
  }
  std::ranges::sort(edges, [](const auto& a, const auto& b) {
    return std::tie(a.src, a.dst, b.communication) < std::tie(b.src, b.dst, a.communication);
  });
  const auto repeated = std::ranges::unique(
      edges, [](const auto& a, const auto& b) { return a.src == b.src && a.dst == b.dst; });
  edges.erase(repeated.begin(), repeated.end());
  return edges;
}

/// The linear program of shared_bound(), and the bound that its dual solution proves.
class SharedWork {
 public:
  SharedWork(const Problem& p, Limits limits)
      : units_(p.graph), classes_(device_classes(p)), times_(classes_.size()) {
    for (const DeviceClass& cls : classes_) {
      const std::size_t s = index(&cls - classes_.data());
      for (const UnitId u : units_.units()) {
        Duration sum{};
        for (const OpId v : units_.members(u)) {
          const Duration time = p.costs.compute(v, cls.devices.front());
          sum = time == cannot_run || sum == never ? never : sum + time;
        }
        times_[s].push_back(sum);
      }
      const bool limited = p.engine.enforce_memory && limits != Limits::none &&
                           (limits == Limits::all_devices || !cls.core);
      const Device& device = p.cluster.device(cls.devices.front());
      memory_.push_back(limited ? std::optional(device.memory) : std::nullopt);
    }
  }

  Duration bound() const {
    double best = proved(even());
    if (classes_.size() > 1 && units_.size() <= most_solved)
      best = std::max(best, proved(solve_program()));
    return as_bound(best);
  }

 private:
  static constexpr std::size_t most_solved = 50'000;

  /// Dual prices of a nanosecond on a device of each class, and of a byte of its memory.
  struct Prices {
    std::vector<double> time, memory;  // [classes]; sum of devices * time is 1; >= 0
  };

  static std::size_t index(std::ptrdiff_t i) { return static_cast<std::size_t>(i); }
  double devices(std::size_t s) const { return static_cast<double>(classes_[s].devices.size()); }
  double weight(UnitId u) const { return static_cast<double>(units_.needs(u).persistent.count); }

  Prices even() const {
    double all = 0.0;
    for (std::size_t s = 0; s < classes_.size(); ++s) all += devices(s);
    return {std::vector<double>(classes_.size(), 1.0 / all),
            std::vector<double>(classes_.size(), 0.0)};
  }

  /// By weak duality, T >= sum of devices * price * load >= the sum of all units, each on its
  /// cheapest class, less the value of all memory.
  double proved(const Prices& prices) const {
    double value = 0.0;
    for (const UnitId u : units_.units()) {
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t s = 0; s < classes_.size(); ++s)
        if (times_[s][u] != never)
          least = std::min(least, static_cast<double>(times_[s][u].count()) * prices.time[s] +
                                      weight(u) * prices.memory[s]);
      if (std::isfinite(least)) value += least;
    }
    for (std::size_t s = 0; s < classes_.size(); ++s)
      if (memory_[s])
        value -= devices(s) * static_cast<double>(memory_[s]->count) * prices.memory[s];
    return value;
  }

  Prices solve_program() const {
    constexpr double infinity = solver::LinearProgram::infinity;
    const double unit = 1e-3 * std::max(1.0, proved(even()));  // ns
    double all_weights = 1.0;
    for (const UnitId u : units_.units()) all_weights += weight(u);
    solver::LinearProgram program;
    program.add_column(0.0, infinity);  // T
    std::vector<std::vector<solver::LinearProgram::Term>> load(classes_.size()),
        held(classes_.size());
    for (const UnitId u : units_.units()) {
      std::vector<solver::LinearProgram::Term> shares;
      for (std::size_t s = 0; s < classes_.size(); ++s) {
        if (times_[s][u] == never) continue;
        const std::uint32_t x = program.add_column(0.0, 1.0);
        shares.push_back({x, 1.0});
        load[s].push_back({x, static_cast<double>(times_[s][u].count()) / unit});
        held[s].push_back({x, weight(u) / all_weights});
      }
      if (!shares.empty()) program.add_row(1.0, shares, 1.0);
    }
    const std::size_t first = program.num_rows();
    for (std::size_t s = 0; s < classes_.size(); ++s) {
      load[s].push_back({0, -devices(s)});
      program.add_row(-infinity, load[s], 0.0);
      const double room =
          memory_[s] ? devices(s) * static_cast<double>(memory_[s]->count) / all_weights : infinity;
      program.add_row(-infinity, held[s], room);
    }
    program.objectives.emplace_back(program.num_columns(), 0.0)[0] = 1.0;
    const solver::LinearOptimum optimum = solver::solve(program);
    Prices prices = even();
    if (optimum.status != solver::LinearOptimum::Status::optimal) return prices;
    double sum = 0.0;
    for (std::size_t s = 0; s < classes_.size(); ++s)
      sum += devices(s) * std::max(0.0, -optimum.row_dual[first + 2 * s]);
    if (sum <= 0.0) return prices;
    for (std::size_t s = 0; s < classes_.size(); ++s) {
      prices.time[s] = std::max(0.0, -optimum.row_dual[first + 2 * s]) / sum;
      const double byte = std::max(0.0, -optimum.row_dual[first + 2 * s + 1]) / sum;
      prices.memory[s] = memory_[s] ? byte * unit / all_weights : 0.0;
    }
    return prices;
  }

  ColocationUnits units_;
  std::vector<DeviceClass> classes_;
  std::vector<IdVector<UnitId, Duration>> times_;  // [classes][units]; never: cannot run
  std::vector<std::optional<Bytes>> memory_;       // [classes]; nothing: no limit
};

/// The bound by linear program takes too long for graphs with more edges and is left out.
constexpr std::size_t most_edges = 100'000;

}  // namespace

Duration communication_bound(const Problem& p) {
  if (!p.graph.plain()) return Duration{};
  const IdVector<OpId, Duration> least = least_times(p);
  SctGraph sct{.compute = {least.begin(), least.end()}, .edges = edges_of(p)};
  std::vector<LeastTwo> children(p.graph.num_ops()), parents(p.graph.num_ops());
  for (const SctGraph::Edge& e : sct.edges) {
    children[e.src].add(sct.compute[e.dst]);
    parents[e.dst].add(sct.compute[e.src]);
  }
  for (SctGraph::Edge& e : sct.edges)
    e.communication = std::min({e.communication, children[e.src].without(sct.compute[e.dst]),
                                parents[e.dst].without(sct.compute[e.src])});
  return as_bound(solve_sct(sct, {.canonical = false}).lower_bound);
}

Duration shared_bound(const Problem& problem, Limits limits) {
  if (!problem.graph.plain()) return Duration{};
  return SharedWork(problem, limits).bound();
}

std::optional<std::size_t> devices_needed(const Problem& p) {
  std::vector<Bytes> memory;
  for (const DeviceId d : p.cluster.devices()) memory.push_back(p.cluster.device(d).memory);
  std::ranges::sort(memory, std::greater<>());
  const ColocationUnits units(p.graph);
  Bytes weights;
  std::size_t large = 0;
  for (const UnitId u : units.units()) {
    const Bytes own = units.needs(u).persistent;
    weights += own;
    if (!memory.empty() && own > memory.front() - own) ++large;
  }
  std::size_t needed = 0;
  for (Bytes room; needed < memory.size() && room < weights; ++needed) room += memory[needed];
  Bytes all;
  for (const Bytes m : memory) all += m;
  if (all < weights || large > memory.size()) return std::nullopt;
  return std::max(needed, large);
}

NamedBounds step_bounds(const LowerBounds& quick, const Problem& problem) {
  NamedBounds bounds{
      {{"critical path", "critical_path_us", "the longest chain of ops, transfers free",
        quick.critical_path},
       {"work", "work_us", "the total work, divided evenly over the devices", quick.work},
       {"group", "group_us", "the longest colocation group, on one device", quick.group},
       {"memory", "memory_us", "the total work, divided so that the weights fit",
        shared_bound(problem, Limits::all_devices)}}};
  if (problem.engine.semantics == Semantics::event && problem.graph.num_edges() <= most_edges)
    bounds.all.push_back({"communication", "communication_us",
                          "the longest chain, one neighbour of each op on its device",
                          communication_bound(problem)});
  return bounds;
}

NamedBounds load_bounds(const LowerBounds& quick, const Problem& problem,
                        std::optional<Duration> time_limit) {
  const ColocationUnits units(problem.graph);
  const std::vector<DeviceClass> classes = device_classes(problem);
  const exact::Bundles bundles(problem, units, classes, {.join_cycles = false});
  NamedBounds bounds{
      {{"work", "work_us", "the total work, divided evenly over the devices", quick.work},
       {"group", "group_us", "the longest colocation group, on one device", quick.group},
       {"memory", "memory_us", "the total work, divided so that the weights fit",
        shared_bound(problem, Limits::accelerators)},
       {"counting", "counting_us", "the longest groups, each on one device",
        exact::load_bound(bundles, classes)}}};
  if (!time_limit) return bounds;
  const std::string limit = fmt::format("{} us", to_us(*time_limit));
  try {
    const Placement split =
        make_placer("mip_max_load", Options("mip_max_load", {{"time_limit", {limit, {}, {}}}}))
            ->place(problem, 0);
    bounds.all.push_back({"integer program", "integer_program_us",
                          "branch and bound, within the time limit",
                          from_us(split.facts.at("bound_us")).value_or(Duration{})});
  } catch (const InfeasibleError&) {  // no placement fits, so a bound would mean nothing
  }
  return bounds;
}

Duration NamedBounds::best() const { return std::ranges::max(all, {}, &NamedBound::time).time; }

std::string_view NamedBounds::binding() const {
  return std::ranges::max_element(all, {}, &NamedBound::time)->name;
}

}  // namespace baechi::bounds
