#include "placers/feasible.h"

#include "placers/search/chain.h"

namespace baechi {
namespace {

constexpr std::size_t most_enumerated = 5'000;  // placements
constexpr std::size_t most_moves = 3'000, fewest_moves = 100;
constexpr std::size_t most_simulated = 2'000'000;  // ops, summed over all moves: about a second

using search::SearchSpace;
using search::UnitDevices;

/// A proof that no placement fits: some colocation unit fits on no device, or all devices together
/// are too small (lower_bounds). Empty: unknown.
std::string hopeless(const Problem& p, const ColocationUnits& units) {
  const MemoryFloor empty(p);
  for (const UnitId u : units.units()) {
    if (std::ranges::none_of(p.cluster.devices(),
                             [&](DeviceId d) { return empty.fits(units.needs(u), d); }))
      return fmt::format("op '{}' fits on no device", p.graph.name(units.members(u).front()));
  }
  return lower_bounds(p.graph, p.cluster, p.costs).why_not;
}

/// The number of placements, or any number above most_enumerated if there are more than that.
std::size_t num_placements(const SearchSpace& space) {
  std::size_t count = 1;
  for (const UnitId u : space.movable()) {
    count *= space.able(u).size();
    if (count > most_enumerated) break;
  }
  return count;
}

class Attempt {
 public:
  explicit Attempt(const Problem& p) : problem_(p), space_(p), simulator_(problem_) {}

  Feasible find(std::span<const std::string_view> names) {
    if (const std::string why = hopeless(problem_, space_.units()); !why.empty())
      return {{}, "no placement fits: " + why, {}, true};
    if (num_placements(space_) <= most_enumerated) return enumerate();
    if (Feasible found = run_placers(names); found.placement) return found;
    start_simply();
    const UnitDevices simple = least_;
    if (Feasible found = cuts(); found.placement) return found;
    Feasible found = reduce_missing(least_, 1);
    if (!found.placement && least_ != simple) found = reduce_missing(simple, 1);
    if (!found.placement) found = reduce_missing(least_, 4);
    if (found.placement) return found;
    FittingPlacement any = first_that_fits(problem_, most_simulated);
    if (any.placement)
      return {std::move(any.placement), "an enumeration of all placements that may fit", "all"};
    if (any.all) return {{}, "none of all placements fits", {}, true};
    return found;
  }

 private:
  /// Bytes above the memory limits, summed over the devices, in a step simulated without limits.
  Bytes missing(const Placement& placement);
  Feasible enumerate();
  Feasible run_placers(std::span<const std::string_view> names);
  /// The cached placement of a placer with default options; null if it has none.
  const Placement* answer_of(std::string_view name);
  /// Initialises least_ from three simple placements.
  void start_simply();
  /// Placements that cut the order of the units into one stretch per device.
  Feasible cuts();
  /// At most `times` x the usual number of moves, starting from `at`.
  Feasible reduce_missing(const UnitDevices& at, std::size_t times);
  /// The usual number of moves.
  std::size_t moves() const {
    return std::clamp(most_simulated / problem_.graph.num_ops(), fewest_moves, most_moves);
  }
  UnitDevices stretches(const std::vector<double>& size, const std::vector<double>& share) const;

  Placement placement(const UnitDevices& at) const {
    Placement result{.device = IdVector<OpId, DeviceId>(problem_.graph.num_ops())};
    for (const OpId v : problem_.graph.ops()) result.device[v] = at[space_.units().of(v)];
    return result;
  }
  /// The device of each unit in `placement`, or another device if that one cannot run the unit.
  UnitDevices units_of(const Placement& placement) const {
    UnitDevices at(space_.units().size());
    for (const UnitId u : space_.units().units()) {
      const DeviceId d = placement.device[space_.units().members(u).front()];
      at[u] = space_.can_run(u, d) || space_.able(u).empty() ? d : space_.able(u).front();
    }
    return at;
  }
  void keep_least(const UnitDevices& at, Bytes missing) {
    if (missing >= least_missing_) return;
    least_ = at;
    least_missing_ = missing;
  }
  void keep_shortest(const Placement& placement) {
    const StepResult& step = simulator_.run(placement);
    if (step.oom || (best_ && step.makespan >= shortest_)) return;
    best_ = placement;
    shortest_ = step.makespan;
  }

  const Problem problem_;
  const SearchSpace space_;
  Simulator simulator_;
  Problem unlimited_{problem_.graph, problem_.cluster, problem_.costs, without_limits(problem_)};
  Simulator without_limits_{unlimited_};
  std::map<std::string_view, std::optional<Placement>> answers_;
  std::optional<Placement> best_;
  Duration shortest_{};
  IdVector<DeviceId, Bytes> peak_{problem_.cluster.num_devices()};  // in the last missing()
  UnitDevices least_;  // the devices with the least missing memory of start_simply() and cuts()
  Bytes least_missing_{std::int64_t{1} << 62};

  static EngineOptions without_limits(const Problem& p) {
    EngineOptions engine = p.engine;
    engine.enforce_memory = false;
    return engine;
  }
};

Bytes Attempt::missing(const Placement& placement) {
  const StepResult& step = without_limits_.run(placement);
  Bytes sum;
  for (const DeviceId d : problem_.cluster.devices()) {
    peak_[d] = step.devices[d].peak;
    const Bytes over = step.devices[d].peak - problem_.cluster.device(d).memory;
    sum += std::max(Bytes{}, over);
  }
  return sum;
}

Feasible Attempt::enumerate() {
  Placement none{.device = IdVector<OpId, DeviceId>(problem_.graph.num_ops())};
  UnitDevices at = units_of(none);
  std::vector<std::size_t> choice(space_.movable().size(), 0);
  for (const UnitId u : space_.movable()) at[u] = space_.able(u).front();
  for (std::size_t i = 0; i <= choice.size();) {
    if (i == 0) keep_shortest(placement(at));
    if (i == choice.size()) break;
    const UnitId u = space_.movable()[i];
    choice[i] = (choice[i] + 1) % space_.able(u).size();
    at[u] = space_.able(u)[choice[i]];
    i = choice[i] == 0 ? i + 1 : 0;  // a carry, as when counting
  }
  const std::size_t tried = num_placements(space_);
  if (!best_) return {{}, fmt::format("none of all {} placements fits", tried), {}, true};
  return {std::move(best_), fmt::format("the shortest step of all {} placements", tried), "all"};
}

const Placement* Attempt::answer_of(std::string_view name) {
  auto [known, is_new] = answers_.try_emplace(name);
  std::optional<Placement>& answer = known->second;
  try {
    if (is_new) answer = make_placer(name)->place(problem_, 0);
  } catch (const InfeasibleError&) {  // other placers may find a placement
  }
  return answer ? &*answer : nullptr;
}

Feasible Attempt::run_placers(std::span<const std::string_view> names) {
  std::string winner;
  for (const std::string_view name : names) {
    const Placement* answer = answer_of(name);
    if (answer == nullptr) continue;
    const bool had_one = best_.has_value();
    const Duration before = shortest_;
    keep_shortest(*answer);
    if (best_ && (!had_one || shortest_ < before)) winner = name;
  }
  if (!best_) return {};
  return {std::move(best_), fmt::format("placed by {}", winner), winner};
}

void Attempt::start_simply() {
  for (const char* name : {"least_loaded", "round_robin", "single"}) {
    const Placement* answer = answer_of(name);
    if (answer == nullptr) continue;
    const UnitDevices at = units_of(*answer);
    keep_least(at, missing(placement(at)));
  }
}

/// Assigns to device d the next units of the order, up to its `share` of all `size`.
UnitDevices Attempt::stretches(const std::vector<double>& size,
                               const std::vector<double>& share) const {
  UnitDevices at(space_.units().size());
  double all = 0.0, shares = 0.0;
  for (const double s : size) all += s;
  for (const double s : share) shares += s;
  double before = 0.0, until = share.front() / shares * all;
  std::size_t d = 0;
  for (const UnitId u : space_.units().units()) {
    const double middle = before + size[index(u)] / 2;
    while (middle > until && d + 1 < share.size()) until += share[++d] / shares * all;
    at[u] = space_.can_run(u, static_cast<DeviceId>(d)) || space_.able(u).empty()
                ? static_cast<DeviceId>(d)
                : space_.able(u).front();
    before += size[index(u)];
  }
  return at;
}

Feasible Attempt::cuts() {
  const std::size_t rounds = moves() / 50;
  for (std::size_t measure = 0; measure < 3; ++measure) {
    std::vector<double> size, share;
    for (const UnitId u : space_.units().units()) {
      const UnitNeeds& needs = space_.units().needs(u);
      const Bytes bytes = measure == 0 ? needs.footprint : needs.persistent;
      size.push_back(measure == 2 ? 1.0 : static_cast<double>(bytes.count) + 1.0);
    }
    for (const DeviceId d : problem_.cluster.devices())
      share.push_back(static_cast<double>(problem_.cluster.device(d).memory.count) + 1.0);
    for (std::size_t round = 0; round < rounds; ++round) {
      UnitDevices at = stretches(size, share);
      Placement candidate = placement(at);
      const Bytes over = missing(candidate);
      if (over == Bytes{} && !simulator_.run(candidate).oom)
        return {std::move(candidate),
                fmt::format("{} cuts of the order of ops", measure * rounds + round + 1), "cuts"};
      keep_least(at, over);
      for (const DeviceId d : problem_.cluster.devices()) {
        const double room = static_cast<double>(problem_.cluster.device(d).memory.count) + 1.0;
        const double full = static_cast<double>(peak_[d].count) / room;
        share[index(d)] *= std::clamp(1.0 - (full - 1.0) * 0.5, 0.7, 1.2);
      }
    }
  }
  return {};
}

Feasible Attempt::reduce_missing(const UnitDevices& at, std::size_t times) {
  const std::size_t budget = times * moves();
  const auto step = make_objective("step_time", Options("step_time"));
  search::Chain chain(space_, *step, placement(at), times);  // a different seed for each call
  chain.run(budget, {.begin = 0.05, .end = 0.05}, {.until_feasible = true});
  if (chain.best_score().feasible())
    return {chain.best(),
            fmt::format("{} moves that lessen the memory missing", chain.evaluations()), "moves"};
  return {{}, fmt::format("{} moves that lessen the memory missing were too few", budget)};
}

}  // namespace

std::span<const std::string_view> quick_placers() {
  static constexpr std::string_view names[] = {"m_etf",        "heft",        "m_topo",
                                               "least_loaded", "round_robin", "single"};
  return names;
}

Feasible find_feasible(const Problem& problem, std::span<const std::string_view> names) {
  Problem timed = problem;
  timed.engine.semantics = Semantics::event;  // the other semantics enforces no limits
  return Attempt(timed).find(names);
}

}  // namespace baechi
