#include "placers/exact/pipelines.h"
#include "placers/interface/registry.h"
#include "placers/line_cuts.h"
#include "placers/list/schedule.h"
#include "placers/refine.h"
#include "placers/sct/favourite_child.h"
#include "placers/search/chain.h"
#include "placers/whole_modules.h"
#include "sim/graph/analysis.h"

namespace baechi {
namespace {

/// Simulates the placements of several placers, unless a bound shows that they are slower than the
/// best so far, and keeps the best. Runs no more placers once the best is as fast as a lower bound.
class Contest final : public CutTrial {
 public:
  Contest(const Problem& problem, std::uint64_t seed)
      : problem_(problem),
        seed_(seed),
        simulator_(problem),
        bound_(lower_bounds(problem.graph, problem.cluster, problem.costs).best()) {}

  /// A placement that no placer of the table made.
  void offer(Placement placement) {
    placement.detail.clear();
    consider(searched, std::move(placement));
  }
  /// The evaluations of a search that offered its best.
  void count(std::size_t evaluations) { evaluations_ = evaluations; }
  /// `answer` makes a placement, or throws InfeasibleError.
  template <class Answer>
  void enter(std::string_view name, Answer answer) {
    if (done()) return;
    ++num_run_;
    try {
      consider(name, answer());
    } catch (const InfeasibleError&) {  // another placer may fit
    }
  }
  /// Runs the registered placer with default options, if it supports the graph.
  void enter(std::string_view name) {
    const PlacerEntry& entry = placer_entry(name);
    if (problem_.graph.num_ops() > entry.quick_ops || refusal(entry, problem_.graph)) return;
    enter(name, [&] { return make_placer(name)->place(problem_, seed_); });
  }

  /// linearized_dp, on many ops only pipelines with less than the best step on their busiest
  /// device.
  void enter_pipeline() {
    constexpr std::size_t many = 300;
    const PlacerEntry& entry = placer_entry("linearized_dp");
    if (problem_.graph.num_ops() > entry.quick_ops || refusal(entry, problem_.graph)) return;
    enter(entry.name, [&]() -> Placement {
      const bool limits = best_ && problem_.graph.num_ops() > many;
      auto found = exact::best_linear_pipeline(problem_, ColocationUnits(problem_.graph),
                                               device_classes(problem_),
                                               limits ? shortest_ : Duration::max());
      if (!found) throw InfeasibleError("linearized_dp: no pipeline");
      return {.device = std::move(found->device)};
    });
  }

  /// Straight cuts; `most`: see there.
  void cut(std::size_t most) {
    if (done()) return;
    ++num_run_;
    try_straight_cuts(problem_, most, *this);
  }
  IdVector<DeviceId, Bytes> excess_peaks(Placement placement) override {
    if (best_ && busiest(placement) >= shortest_) return {};
    if (consider("cuts", placement)) return {};
    if (!problem_.engine.enforce_memory) return {};
    if (!unlimited_) {
      Problem unlimited = problem_;
      unlimited.engine.enforce_memory = false;
      unlimited_.emplace(unlimited);
    }
    IdVector<DeviceId, Bytes> peaks;
    for (const DeviceUse& use : unlimited_->run(placement).devices) peaks.push_back(use.peak);
    return peaks;
  }

  const std::optional<Placement>& best() const { return best_; }
  Duration shortest() const { return shortest_; }
  bool done() const { return best_ && shortest_ <= bound_; }

  Placement answer() {
    const double ahead =
        100.0 * (static_cast<double>(next_.count()) /
                     static_cast<double>(std::max<std::int64_t>(shortest_.count(), 1)) -
                 1.0);
    std::string why = "none other fits";
    if (done())
      why = "no step is shorter";
    else if (!next_by_.empty())
      why = fmt::format("next {}, {:+.1f} %", next_by_, ahead);
    best_->detail = fmt::format("{}: {}; {} placers run, {}{}{}", winner_, to_text(shortest_),
                                num_run_, why, best_->detail.empty() ? "" : "; ", best_->detail);
    if (evaluations_ > 0) best_->facts[searched_fact] = static_cast<double>(evaluations_);
    best_->facts["asked"] = static_cast<double>(num_run_);
    best_->placed_by = winner_ == searched ? "" : winner_;
    return *std::move(best_);
  }

 private:
  static constexpr std::string_view searched = "local search";

  /// Whether the step fits, as far as it was simulated.
  bool consider(std::string_view name, Placement placement) {
    if (best_ &&
        (placement.device == best_->device && problem_.engine.queue != ReadyOrder::priority))
      return true;
    if (best_ && busiest(placement) >= shortest_) {
      remember(name, busiest(placement));
      return true;
    }
    const StepResult& step = simulator_.run(placement);
    if (step.oom) return false;
    if (best_ && step.makespan >= shortest_) {
      remember(name, step.makespan);
      return true;
    }
    if (best_) remember(winner_, shortest_);
    best_ = std::move(placement);
    shortest_ = step.makespan;
    winner_ = name;
    return true;
  }
  void remember(std::string_view name, Duration value) {
    if (!next_by_.empty() && value >= next_) return;
    next_ = value;
    next_by_ = name;
  }
  /// Lower bound on the step of `placement`: the compute time of its busiest device. 0 for graphs
  /// with lanes.
  Duration busiest(const Placement& placement) const {
    if (!problem_.graph.plain()) return {};
    IdVector<DeviceId, Duration> load(problem_.cluster.num_devices());
    for (const OpId v : problem_.graph.ops())
      load[placement.device[v]] += problem_.costs.compute(v, placement.device[v]);
    return *std::ranges::max_element(load);
  }

  const Problem& problem_;
  std::uint64_t seed_;
  Simulator simulator_;
  std::optional<Simulator> unlimited_;  // without limits of memory
  Duration bound_;
  std::optional<Placement> best_;
  Duration shortest_{}, next_{};
  std::string winner_, next_by_;
  std::size_t num_run_ = 0, evaluations_ = 0;
};

/// The largest of a few simple ratios that is at most `a` / `b`, about.
double simple_ratio(Bytes a, Bytes b) {
  const double ratio = 1.001 * static_cast<double>(a.count) / static_cast<double>(b.count);
  double result = 1.0;
  for (const double simple : {4.0 / 3, 1.5, 2.0, 8.0 / 3, 3.0, 4.0})
    if (simple <= ratio) result = simple;
  return result;
}

/// Clusters with less memory, ascending. A device's limit is a level times simple_ratio() of its
/// memory to the least of any device, at most its own. The levels depend on the graph and these
/// ratios alone, so clusters with more memory in the same ratios begin with the same limits. The
/// first level holds a share of the weights and the largest op; the last holds everything.
std::vector<Cluster> smaller_clusters(const Problem& p, std::size_t most_levels) {
  const IdVector<DeviceId, Bytes> own = memory_limits(p);
  const Bytes smallest = std::max(*std::ranges::min_element(own), Bytes{1});
  IdVector<DeviceId, double> ratio;
  double sum = 0.0;
  for (const Bytes m : own) {
    ratio.push_back(simple_ratio(m, smallest));
    sum += *std::prev(ratio.end());
  }
  Bytes weights, largest;
  for (const OpId v : p.graph.ops()) {
    weights += p.graph.op(v).persistent;
    largest = std::max(largest, footprint(p.graph, v) + bytes_read(p.graph, v));
  }
  Bytes least =
      std::max(1.0 / sum * weights, 1.0 / *std::ranges::max_element(ratio) * largest) + Bytes{1};
  const Bytes most = one_device_peak(p.graph);
  const double factor =
      std::max(1.02, std::pow(static_cast<double>(most.count) / static_cast<double>(least.count),
                              1.0 / static_cast<double>(most_levels - 1)));
  std::vector<Bytes> levels;
  for (; least < most; least = factor * least + Bytes{1}) levels.push_back(least);
  levels.push_back(peak_upper_bound(p.graph));
  std::vector<Cluster> result;
  for (const Bytes level : levels) {
    Cluster& smaller = result.emplace_back(p.cluster);
    bool fits = false;
    for (const DeviceId d : p.cluster.devices()) {
      const Bytes limit = ratio[d] * level;
      fits = fits || limit <= own[d];
      smaller.set_memory(d, std::min(limit, own[d]));
    }
    if (fits) continue;
    result.pop_back();
    break;
  }
  return result;
}

/// Runs all quick placers and keeps the placement with the shortest simulated step.
class Portfolio final : public Placer {
 public:
  /// `quick`: only the placers of ops, no cuts and no placers of modules. climb() evaluates about
  /// 16 times `evaluations` steps up to climbed_ops, beyond about `work` ops of steps.
  Portfolio(bool quick, std::size_t evaluations, std::size_t work)
      : quick_(quick), evaluations_(evaluations), work_(work) {}

  Placement place(const Problem& p, std::uint64_t seed) const override {
    Problem timed = p;
    if (p.engine.semantics != Semantics::event) timed.engine.enforce_memory = false;
    Contest contest(timed, seed);
    ask_all(p, seed, contest);
    if (!quick_ && evaluations_ > 0 && timed.engine.enforce_memory && !contest.done() &&
        (p.graph.num_ops() <= climbed_ops || (work_ > 0 && p.graph.num_ops() <= most_worked_ops)) &&
        !tries_all_placements(p))
      climb(p, seed, contest);
    if (!contest.best()) throw InfeasibleError("auto: no quick placer's step fits");
    return contest.answer();
  }

 private:
  void ask_all(const Problem& p, std::uint64_t seed, Contest& contest) const {
    contest.enter("single");
    contest.enter("m_etf");
    if (p.graph.num_ops() <= most_ops) contest.enter("m_sct", [&] { return favouring(p); });
    if (!refusal(placer_entry("coarsen"), p.graph))
      contest.enter("coarsen", [&] { return make_placer("coarsen")->place(p, seed); });
    for (const char* name : {"heft", "m_topo", "least_loaded", "round_robin", "random"})
      contest.enter(name);
    constexpr std::size_t most_partitioned = 1'100;  // beyond, they take long and seldom win
    if (p.graph.num_ops() <= most_partitioned)
      for (const char* name : {"metis", "scotch"}) contest.enter(name);
    if (quick_) return;
    for (const char* name : {"fill", "balanced"}) contest.enter(name);
    contest.enter_pipeline();
    if (p.graph.plain()) contest.cut(refined_ops / 4);
  }

  Placement favouring(const Problem& p) const {
    list::PlaceOptions options;
    options.favourite = favourites_of(p, 0.1, solutions_).of;
    return list::place(p, options, "m_sct");
  }

  /// Searches under rising limits of memory, from the best so far: with more memory all that was
  /// found with less is found again. Until a placement fits, moves ops to reduce the missing
  /// memory. Asks all placers at each fifth limit, on few ops also until a placement fits. On more
  /// ops also moves whole modules.
  void climb(const Problem& p, std::uint64_t seed, Contest& contest) const {
    const auto step = make_objective("step_time", Options("step_time"));
    constexpr search::Temperature cold{0.001, 0.0005, 0.0}, hot{0.05, 0.0005, 0.3},
        fitting{0.05, 0.05, 0.3};
    const std::size_t ops = p.graph.num_ops();
    const bool few = ops <= climbed_ops;
    const std::size_t limits = few ? 65 : std::clamp<std::size_t>(20'000 / ops, 8, 65);
    const std::size_t most =
        few ? evaluations_ : std::min<std::size_t>(512, work_ / (ops * (6 + limits / 6)));
    const WholeModules modules = few ? WholeModules() : whole_modules(p.graph);
    std::optional<OpGraph> grouped;
    if (modules.names.size() > 1) grouped = group_modules(p.graph, modules);
    std::optional<Placement> best;
    Duration shortest = Duration::max();
    std::size_t evaluations = 0;
    const auto offer = [&](const Placement& placement, Duration value) {
      if (value >= shortest) return;
      best = placement;
      shortest = value;
    };
    const auto search = [&](const Problem& less, const Placement& from, std::size_t share,
                            const search::Temperature& temperature) {
      const search::SearchSpace space(less);
      if (space.movable().empty()) return from;
      search::Chain chain(space, *step, from, ++seed);
      chain.run(most / share, temperature, {.until_feasible = &temperature == &fitting});
      if (chain.best_score().feasible()) {
        offer(chain.best(), chain.best_score().value);
        evaluations += chain.evaluations();
      }
      return chain.best();
    };
    Problem unlimited = p;
    unlimited.engine.enforce_memory = false;
    Placement start = make_placer("m_etf")->place(unlimited, seed);
    std::size_t asked = 0, fitted = 0;  // limits so far
    for (const Cluster& cluster : smaller_clusters(p, limits)) {
      const Problem less{p.graph, cluster, p.costs, p.engine};
      const bool first = !best, all = asked++ % 5 == 0 || (first && few);
      Contest at_level(less, seed);
      if (all)
        ask_all(less, seed, at_level);
      else
        at_level.enter("m_etf");
      if (all && grouped)
        at_level.enter("m_etf", [&] {
          return make_placer("m_etf")->place({*grouped, cluster, p.costs, p.engine}, seed);
        });
      if (at_level.best()) {
        start = *at_level.best();
        offer(start, at_level.shortest());
      } else if (first) {
        start = search(less, start, 2, fitting);
      }
      if (!best) continue;
      if (all) search(less, start, first ? 1 : 4, cold);
      const bool early = fitted++ < 5;  // with little memory these are all
      if ((all || early) && grouped)
        search({*grouped, cluster, p.costs, p.engine},
               place_on_modules(p.graph, modules, devices_of_modules(less, modules, *best)), 4,
               hot);
      search(less, *best, early ? 2 : 16, cold);
      if (all || early) search(less, *best, early ? 2 : 4, hot);
    }
    if (best) contest.offer(*std::move(best));
    contest.count(evaluations);
  }

  static constexpr std::size_t most_ops = 10'000;  // beyond, m_sct's program may take seconds
  static constexpr std::size_t most_worked_ops = 3'000;
  bool quick_;
  std::size_t evaluations_, work_;
  mutable SctSolutions solutions_;
};

}  // namespace

/// More memory never makes the step longer where all placements are tried (see refined()), and
/// seldom up to 3,000 ops: climb() finds again what it found with less, but the placers under the
/// devices' own limits may be lucky. Measured: placers/README.md.
std::unique_ptr<Placer> make_auto(Options& o) {
  const bool quick = o.get("quick", false, "only placers of ops, and no evaluations");
  const auto evaluations = static_cast<std::size_t>(o.get(
      "evaluations", std::int64_t{512},
      "of the step after the placers, at most; fewer on graphs of many ops. Up to 80 ops this "
      "many at the first limit of memory with a placement, and some at each larger one",
      0));
  const auto work = static_cast<std::size_t>(o.get(
      "work", std::int64_t{800'000},
      "ops of the steps evaluated under rising limits of memory, about; from 81 to 3,000 ops", 0));
  auto portfolio = std::make_unique<Portfolio>(quick, evaluations, work);
  if (quick || evaluations == 0) return portfolio;
  return refined(std::move(portfolio), o, {evaluations, 1, refined_ops});
}

}  // namespace baechi
