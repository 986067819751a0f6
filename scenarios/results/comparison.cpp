#include "scenarios/results/comparison.h"

#include <boost/math/distributions/normal.hpp>
#include <filesystem>
#include <numeric>

#include "sim/random.h"

namespace baechi {
namespace {

constexpr std::size_t most_exact = 50;

/// Twice the rank of each value by size; equal values share the mean rank. [values.size()]
std::vector<std::size_t> doubled_ranks(const std::vector<double>& values) {
  std::vector<std::size_t> order(values.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  const auto size = [&](std::size_t i) { return std::abs(values[i]); };
  std::ranges::sort(order, {}, size);
  std::vector<std::size_t> ranks(values.size());
  for (std::size_t first = 0; first < order.size();) {
    std::size_t end = first + 1;
    while (end < order.size() && size(order[end]) == size(order[first])) ++end;
    for (std::size_t i = first; i < end; ++i) ranks[order[i]] = first + 1 + end;
    first = end;
  }
  return ranks;
}

/// The probability that the doubled ranks with a plus sum to at most `sum`, if every sign is
/// random.
double chance_up_to(const std::vector<std::size_t>& doubled, std::size_t sum) {
  const std::size_t all = std::accumulate(doubled.begin(), doubled.end(), std::size_t{0});
  std::vector<double> chance(all + 1, 0.0);
  chance[0] = 1.0;
  for (const std::size_t rank : doubled) {
    for (std::size_t s = all + 1; s-- > 0;)
      chance[s] = 0.5 * (chance[s] + (s >= rank ? chance[s - rank] : 0.0));
  }
  return std::accumulate(chance.begin(), chance.begin() + static_cast<std::ptrdiff_t>(sum) + 1,
                         0.0);
}

/// The same by a normal distribution of equal mean and variance.
double normal_chance_up_to(const std::vector<std::size_t>& doubled, std::size_t sum) {
  double mean = 0.0, variance = 0.0;
  for (const std::size_t rank : doubled) {
    const double r = static_cast<double>(rank) / 2.0;
    mean += r / 2.0;
    variance += r * r / 4.0;
  }
  const double continuity = 0.5;
  const double z = (static_cast<double>(sum) / 2.0 + continuity - mean) / std::sqrt(variance);
  return boost::math::cdf(boost::math::normal(), z);
}

using Entry = ContestPoint::Entry;

constexpr double failed = std::numeric_limits<double>::infinity();
constexpr double not_run = -1.0;

std::uint32_t placer_of(std::vector<std::string>& placers, const std::string& name) {
  const auto it = std::ranges::find(placers, name);
  const auto at = static_cast<std::uint32_t>(it - placers.begin());
  if (it == placers.end()) placers.push_back(name);
  return at;
}

/// The placers' costs at every point, relative to the least cost or to a bound.
struct Ratios {
  std::vector<std::vector<double>> of{};  ///< [placers, points]; failed, not_run
  double of_failure = failure_ratio;      ///< the ratio of a failure
};

/// `reference(point)` divides the costs; nothing excludes the point.
Ratios ratios_of(const Contest& contest, auto reference) {
  Ratios ratios;
  ratios.of.assign(contest.placers.size(), std::vector<double>(contest.points.size(), not_run));
  for (std::size_t i = 0; i < contest.points.size(); ++i) {
    const std::optional<Duration> unit = reference(contest.points[i]);
    if (!unit) continue;
    for (const Entry& entry : contest.points[i].entries) {
      double& ratio = ratios.of[entry.placer][i];
      ratio = failed;
      if (!entry.step_time) continue;
      // A step of 0 ns counts as 1 ns: it is as good as its bound.
      ratio = static_cast<double>(std::max<std::int64_t>(1, entry.step_time->count())) /
              static_cast<double>(std::max<std::int64_t>(1, unit->count()));
      ratios.of_failure = std::max(ratios.of_failure, ratio);
    }
  }
  return ratios;
}

std::optional<Duration> least_time(const ContestPoint& point) {
  std::optional<Duration> least;
  for (const Entry& entry : point.entries)
    if (entry.step_time && (!least || *entry.step_time < *least)) least = entry.step_time;
  return least;
}

std::optional<Duration> bound_where_solved(const ContestPoint& point) {
  if (!least_time(point) || point.bound <= Duration::zero()) return std::nullopt;
  return point.bound;
}

/// The mean of the positive ratios of `ratio(point)`.
MeanRatio mean_of(const Contest& contest, std::size_t num_units, auto ratio) {
  std::vector<LogSum> units(num_units);
  LogSum all;
  for (std::size_t i = 0; i < contest.points.size(); ++i) {
    const double r = ratio(i);
    if (r <= 0.0) continue;
    LogSum& unit = units[contest.points[i].unit];
    for (LogSum* sum : {&unit, &all}) {
      sum->sum += std::log(r);
      ++sum->count;
    }
  }
  if (all.count == 0) return {};
  return {.points = all.count,
          .mean = std::exp(all.sum / static_cast<double>(all.count)),
          .interval = bootstrap_interval(units)};
}

std::size_t num_units(const Contest& contest) {
  std::size_t count = 0;
  for (const ContestPoint& point : contest.points)
    count = std::max(count, std::size_t{point.unit} + 1);
  return count;
}

void count(PlacerScore& score, Status status) {
  ++(status == Status::ok           ? score.solved
     : status == Status::oom        ? score.oom
     : status == Status::infeasible ? score.infeasible
                                    : score.error);
}

class Comparing {
 public:
  Comparing(const Contest& contest, double tolerance)
      : contest_(contest),
        tolerance_(tolerance),
        units_(num_units(contest)),
        best_(ratios_of(contest, least_time)),
        bound_(ratios_of(contest, bound_where_solved)) {
    for (std::size_t i = 0; i < contest.points.size(); ++i)
      all_solved_.push_back(std::ranges::all_of(
          best_.of, [&](const std::vector<double>& of) { return of[i] > 0.0 && of[i] < failed; }));
  }

  Comparison comparison() const {
    Comparison c{.measure = contest_.measure, .tolerance = tolerance_};
    c.solved_by_all = static_cast<std::size_t>(std::ranges::count(all_solved_, true));
    std::vector<bool> seen(units_, false);
    for (const ContestPoint& point : contest_.points) {
      seen[point.unit] = true;
      c.points += least_time(point) ? 1U : 0U;
    }
    c.graphs = static_cast<std::size_t>(std::ranges::count(seen, true));

    std::vector<PlacerScore> scores;
    for (std::size_t p = 0; p < contest_.placers.size(); ++p) scores.push_back(score(p));
    std::vector<std::size_t> order(scores.size());  // into contest_.placers
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t x, std::size_t y) {
      const auto rank = [&](const PlacerScore& s) {
        return std::tuple(Rank(s.solved, s.failures, s.to_best_or_worst.mean),
                          -static_cast<std::int64_t>(s.solved));
      };
      return rank(scores[x]) < rank(scores[y]);
    });
    for (const std::size_t p : order) c.placers.push_back(scores[p]);
    std::vector<double> p_values;
    for (std::size_t a = 0; a < order.size(); ++a) {
      for (std::size_t b = a + 1; b < order.size(); ++b) {
        c.duels.push_back(duel(order[a], order[b]));
        c.duels.back().a = a;
        c.duels.back().b = b;
        p_values.push_back(c.duels.back().p);
      }
    }
    const std::vector<double> corrected = holm(p_values);
    for (std::size_t i = 0; i < corrected.size(); ++i) c.duels[i].p_holm = corrected[i];
    return c;
  }

 private:
  PlacerScore score(std::size_t p) const {
    PlacerScore s{.placer = contest_.placers[p]};
    std::vector<std::chrono::nanoseconds> placing;
    for (std::size_t i = 0; i < contest_.points.size(); ++i) {
      s.best += best_.of[p][i] == 1.0 ? 1U : 0U;
      s.failures += best_.of[p][i] == failed ? 1U : 0U;
      for (const Entry& entry : contest_.points[i].entries) {
        if (entry.placer != p) continue;
        count(s, entry.status);
        s.fell_back += entry.fell_back ? 1U : 0U;
        placing.push_back(entry.placing);
      }
    }
    std::ranges::sort(placing);
    if (!placing.empty()) s.placing = placing[placing.size() / 2];
    const auto solved = [&](const Ratios& ratios) {
      return mean_of(contest_, units_,
                     [&](std::size_t i) { return all_solved_[i] ? ratios.of[p][i] : not_run; });
    };
    const auto or_worst = [&](const Ratios& ratios) {
      return s.solved == 0 ? MeanRatio{} : mean_of(contest_, units_, [&](std::size_t i) {
        return std::min(ratios.of[p][i], ratios.of_failure);
      });
    };
    s.to_best = solved(best_);
    s.to_bound = solved(bound_);
    s.to_best_or_worst = or_worst(best_);
    s.to_bound_or_worst = or_worst(bound_);
    return s;
  }

  Duel duel(std::size_t a, std::size_t b) const {
    Duel d;
    std::vector<LogSum> units(units_);
    for (std::size_t i = 0; i < contest_.points.size(); ++i) {
      const double x = best_.of[a][i], y = best_.of[b][i];
      if (x < 0.0 || y < 0.0) continue;
      const bool equal =
          (x == failed && y == failed) || std::max(x, y) <= std::min(x, y) * (1.0 + tolerance_);
      ++(equal ? d.ties : x < y ? d.wins : d.losses);
      LogSum& unit = units[contest_.points[i].unit];
      unit.sum += std::log(std::min(x, best_.of_failure)) - std::log(std::min(y, best_.of_failure));
      ++unit.count;
    }
    d.ratio = mean_of(contest_, units_, [&](std::size_t i) {
      const double x = best_.of[a][i], y = best_.of[b][i];
      return x < 0.0 || y < 0.0 || x == failed || y == failed ? not_run : x / y;
    });
    std::vector<double> differences;
    for (const LogSum& unit : units) {
      if (unit.count == 0) continue;
      differences.push_back(unit.sum / static_cast<double>(unit.count));
      d.graphs += differences.back() != 0.0 ? 1U : 0U;
    }
    d.p = signed_rank_p(differences);
    return d;
  }

  const Contest& contest_;
  double tolerance_;
  std::size_t units_;
  Ratios best_, bound_;
  std::vector<bool> all_solved_;  // [points]
};

/// Profiles of `cost(entry)` over the entries with a step time.
std::vector<Profile> profiles(const Contest& contest, const Comparison& comparison, auto cost) {
  std::vector<Profile> all;
  for (const PlacerScore& score : comparison.placers) {
    const auto it = std::ranges::find(contest.placers, score.placer);
    all.push_back(
        {.placer = score.placer, .number = static_cast<std::size_t>(it - contest.placers.begin())});
  }
  for (const ContestPoint& point : contest.points) {
    double least = failed;
    for (const Entry& entry : point.entries)
      if (entry.step_time) least = std::min(least, cost(entry));
    if (least == failed) continue;
    for (Profile& profile : all) {
      ++profile.points;
      for (const Entry& entry : point.entries)
        if (entry.step_time && entry.placer == profile.number)
          profile.ratios.push_back(cost(entry) / least);
    }
  }
  for (Profile& profile : all) std::ranges::sort(profile.ratios);
  return all;
}

}  // namespace

double signed_rank_p(std::span<const double> differences) {
  std::vector<double> values;
  std::ranges::copy_if(differences, std::back_inserter(values), [](double d) { return d != 0.0; });
  if (values.empty()) return 1.0;
  const std::vector<std::size_t> ranks = doubled_ranks(values);
  std::size_t plus = 0, minus = 0;
  for (std::size_t i = 0; i < values.size(); ++i) (values[i] > 0.0 ? plus : minus) += ranks[i];
  const std::size_t smaller = std::min(plus, minus);
  const double one_sided = values.size() <= most_exact ? chance_up_to(ranks, smaller)
                                                       : normal_chance_up_to(ranks, smaller);
  return std::min(1.0, 2.0 * one_sided);
}

std::vector<double> holm(std::span<const double> p) {
  std::vector<std::size_t> order(p.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::stable_sort(order, {}, [&](std::size_t i) { return p[i]; });
  std::vector<double> corrected(p.size());
  double before = 0.0;
  for (std::size_t k = 0; k < order.size(); ++k) {
    before = std::max(before, std::min(1.0, p[order[k]] * static_cast<double>(p.size() - k)));
    corrected[order[k]] = before;
  }
  return corrected;
}

std::optional<Interval> bootstrap_interval(std::span<const LogSum> graphs) {
  std::vector<LogSum> known;
  std::ranges::copy_if(graphs, std::back_inserter(known),
                       [](const LogSum& g) { return g.count > 0; });
  if (known.size() < 2) return std::nullopt;
  const std::size_t draws = std::clamp<std::size_t>(2'000'000 / known.size(), 200, 2000);
  Random random(1);
  std::vector<double> means(draws);
  for (double& mean : means) {
    LogSum drawn;
    for (std::size_t i = 0; i < known.size(); ++i) {
      const LogSum& graph = known[random.below(static_cast<std::uint32_t>(known.size()))];
      drawn.sum += graph.sum;
      drawn.count += graph.count;
    }
    mean = drawn.sum / static_cast<double>(drawn.count);
  }
  std::ranges::sort(means);
  return Interval{std::exp(means[draws / 40]), std::exp(means[draws - 1 - draws / 40])};
}

std::vector<Entry> middle_runs(std::vector<Entry> runs) {
  std::ranges::stable_sort(runs, [](const Entry& x, const Entry& y) {
    const auto order = [](const Entry& e) {
      return std::tuple(e.placer, e.step_time.value_or(Duration::max()), e.status);
    };
    return order(x) < order(y);
  });
  std::vector<Entry> entries;
  for (std::size_t first = 0; first < runs.size();) {
    std::size_t end = first;
    std::vector<std::chrono::nanoseconds> placing;
    for (; end < runs.size() && runs[end].placer == runs[first].placer; ++end)
      placing.push_back(runs[end].placing);
    const std::size_t middle = placing.size() / 2;
    std::ranges::sort(placing);
    entries.push_back(runs[first + middle]);
    entries.back().placing = placing[middle];
    first = end;
  }
  return entries;
}

void ContestBuilder::add(const RunResult& row) {
  if (contest_.measure.empty()) contest_.measure = row.measure;
  if (row.measure != contest_.measure) return;
  if (row.scenario != scenario_ || row.graph != graph_ || row.at != at_) {
    close(contest_);
    runs_.clear();
    scenario_ = row.scenario;
    graph_ = row.graph;
    at_ = row.at;
  }
  bound_ = row.lower_bound.value_or(Duration{});
  runs_.push_back({.placer = placer_of(contest_.placers, row.placer),
                   .status = row.status,
                   .step_time = row.value,
                   .placing = std::chrono::floor<std::chrono::microseconds>(row.placing),
                   .fell_back = row.fell_back()});
}

void ContestBuilder::close(Contest& contest) const {
  if (runs_.empty()) return;
  contest.points.push_back(
      {.unit = static_cast<std::uint32_t>(graph_), .bound = bound_, .entries = middle_runs(runs_)});
}

Contest ContestBuilder::contest() const {
  Contest contest = contest_;
  close(contest);
  return contest;
}

Comparison compare(const Contest& contest, double tolerance) {
  return Comparing(contest, tolerance).comparison();
}

std::vector<Profile> step_profiles(const Contest& contest, const Comparison& comparison) {
  return profiles(contest, comparison, [](const Entry& entry) {
    return static_cast<double>(std::max<std::int64_t>(1, entry.step_time->count()));
  });
}

std::vector<Profile> placing_profiles(const Contest& contest, const Comparison& comparison) {
  return profiles(contest, comparison, [](const Entry& entry) {
    return static_cast<double>(std::max<std::int64_t>(1, entry.placing.count()));
  });
}

double read_tolerance(std::string text) {
  if (text.empty()) return usual_tolerance;
  const std::string given = text;
  double unit = 1.0;
  if (text.ends_with('%')) {
    unit = 0.01;
    text.pop_back();
    while (text.ends_with(' ')) text.pop_back();
  }
  const auto number = parse_number<double>(text);
  if (!number || !(*number >= 0.0) || *number * unit > 1.0)
    throw InputError(fmt::format(
        "--tolerance: '{}' is not a fraction from 0 to 1, such as 0.005 or '0.5 %'", given));
  return *number * unit;
}

std::vector<std::string> short_names(const std::vector<std::string>& folders) {
  std::vector<std::string> names;
  for (const std::string& folder : folders) {
    std::filesystem::path path = std::filesystem::path(folder).lexically_normal();
    if (path.filename().empty()) path = path.parent_path();
    names.push_back(path.filename().string());
  }
  std::vector<std::string> sorted = names;
  std::ranges::sort(sorted);
  return std::ranges::adjacent_find(sorted) == sorted.end() ? names : folders;
}

}  // namespace baechi
