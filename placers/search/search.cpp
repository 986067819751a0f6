#include <oneapi/tbb/task_arena.h>

#include "placers/interface/registry.h"
#include "placers/search/chain.h"
#include "placers/search/portfolio.h"
#include "sim/file_aside.h"

namespace baechi::search {

/// A placement better than all before it.
struct SearchStep {
  std::size_t evaluation = 0;  ///< number, over all chains; 0: the portfolio
  Score score{};
  std::string_view by;  ///< the move, or the placer
};

/// Writes `steps` as CSV: evaluation, objective_us, feasible, by. Written to a temporary file and
/// renamed. Throws InputError if it cannot be written.
void write_search_trace(const std::string& path, const std::vector<SearchStep>& steps);

void write_search_trace(const std::string& path, const std::vector<SearchStep>& steps) {
  std::string text = "evaluation,objective_us,feasible,by\n";
  for (const SearchStep& s : steps)
    text += fmt::format("{},{}.{:03},{},{}\n", s.evaluation, s.score.value.count() / 1000,
                        s.score.value.count() % 1000, s.score.feasible() ? 1 : 0, s.by);
  write_aside(path, text);
}

namespace {

using Clock = std::chrono::steady_clock;

/// Several concurrent annealing chains that start from the best placements of a portfolio. From
/// time to time the worse chains continue from the placements of the better ones.
class Search final : public Placer {
 public:
  explicit Search(Options& o)
      : choice_(read_objective(o)),
        portfolio_(o, choice_.name, o.get("fallback", true, fallback_help)),
        chains_(static_cast<std::size_t>(
            o.get("chains", std::int64_t{4},
                  "concurrent annealing chains, whatever the number of threads", 1))),
        evaluations_(static_cast<std::size_t>(
            o.get("evaluations", std::int64_t{20'000}, "of the objective, over all chains"))),
        seconds_(o.get("seconds", 0.0,
                       "of real time, the portfolio's included, instead of evaluations; not "
                       "reproducible; 0: no limit",
                       0.0, most_seconds)),
        trace_(o.path("trace", "CSV file for each placement better than all before it")) {
    constexpr std::size_t most_chains = 1024;
    if (chains_ > most_chains) o.mistake("chains", fmt::format("more than {}", most_chains));
  }

  bool can_stop() const override { return true; }
  void check(const Problem& p) const override { choice_.objective->on(p); }

  Placement place(const Problem& p, std::uint64_t seed) const override {
    return place_watched(p, seed, {});
  }

  Placement place_watched(const Problem& p, std::uint64_t seed,
                          const Watcher& watcher) const override {
    // Isolated: while this thread waits for the chains, it must not take up other tasks.
    return oneapi::tbb::this_task_arena::isolate([&] { return find(p, seed, watcher); });
  }

 private:
  static constexpr std::size_t most_seeds = 2;
  static constexpr double most_seconds = 1e9;  // 31 years; a clock counts 292

  Placement find(const Problem& p, std::uint64_t seed, const Watcher& watcher) const {
    ChainLimits limits{.stop = watcher.stop};
    auto portfolio_until = limits.until;
    if (seconds_ > 0.0) {
      const auto start = Clock::now();
      limits.until = start + std::chrono::duration_cast<Clock::duration>(Seconds(seconds_));
      portfolio_until = start + std::chrono::duration_cast<Clock::duration>(Seconds(seconds_ / 5));
    }
    const std::vector<Candidate> seeds =
        portfolio_.run(p, *choice_.objective, seed, portfolio_until);
    if (seeds.empty())
      throw InfeasibleError("search: no placer of the portfolio found a placement that fits");
    if (!seeds.front().score.feasible()) refuse_what_cannot_fit(p);
    std::vector<Placement> starts;
    const std::size_t num_starts = most_seeds + (seeds.front().extra ? 1 : 0);
    for (const Candidate& candidate : std::span(seeds).first(std::min(num_starts, seeds.size())))
      starts.push_back(candidate.placement);
    const SearchSpace space(p);
    // Annealing through infeasible placements did not improve latencies.
    const double leaves = choice_.name == "latency" ? 0.0 : Temperature{}.leaves;
    Annealing annealing(space, *choice_.objective, starts, chains_, seed, leaves);
    annealing.run(evaluations_, limits, watcher);
    return answer(seeds, annealing);
  }
  using Seconds = std::chrono::duration<double>;

  /// Throws InfeasibleError if the lower bounds prove that no step fits.
  void refuse_what_cannot_fit(const Problem& p) const {
    if (choice_.name != "step_time" || !p.engine.enforce_memory ||
        p.engine.semantics != Semantics::event)
      return;
    const LowerBounds bounds = lower_bounds(p.graph, p.cluster, p.costs);
    if (!bounds.fits_in_memory)
      throw InfeasibleError("search: no placement fits: " + bounds.why_not);
  }

  /// The improvements of all chains, ordered as if the chains had run in turn.
  static std::vector<SearchStep> steps(const Candidate& seed, const std::deque<Chain>& chains) {
    std::vector<SearchStep> all;
    for (std::size_t c = 0; c < chains.size(); ++c)
      for (const Chain::Improvement& i : chains[c].improvements())
        all.push_back({(i.evaluation - 1) * chains.size() + c + 1, i.score, i.move});
    std::ranges::sort(all, {}, &SearchStep::evaluation);
    std::vector<SearchStep> better{{0, seed.score, seed.placer}};
    for (const SearchStep& step : all)
      if (step.score < better.back().score) better.push_back(step);
    return better;
  }

  Placement answer(const std::vector<Candidate>& seeds, const Annealing& annealing) const {
    const Candidate& seed = seeds.front();
    const std::vector<SearchStep> found = steps(seed, annealing.chains());
    if (!trace_.empty()) write_search_trace(trace_, found);
    const Score& score = found.back().score;
    if (!score.feasible())
      throw InfeasibleError(
          fmt::format("search: none of {} placements of the portfolio and {} others fits",
                      seeds.size(), annealing.evaluations()));
    Placement result = found.size() > 1 ? annealing.best().best() : seed.placement;
    result.placed_by = found.size() > 1 ? "" : seed.placer;
    result.facts = {{"evaluations", static_cast<double>(annealing.evaluations())},
                    {"improvements", static_cast<double>(found.size() - 1)},
                    {"portfolio_us", seed.score.feasible() ? to_us(seed.score.value) : -1.0},
                    {"found_us", to_us(score.value)}};
    const std::string begin = seed.score.feasible()
                                  ? fmt::format("{} by {}", to_text(seed.score.value), seed.placer)
                                  : "no placement of the portfolio fits";
    result.detail = fmt::format("{}, {} after {} evaluations", begin, to_text(score.value),
                                annealing.evaluations());
    return result;
  }

  ObjectiveChoice choice_;
  Portfolio portfolio_;
  std::size_t chains_, evaluations_;
  double seconds_;
  std::string trace_;
};

}  // namespace

std::unique_ptr<Placer> make_search(Options& o) { return std::make_unique<Search>(o); }

}  // namespace baechi::search
