#include "validate/score.h"

#include "sim/random.h"

namespace baechi::validate {
namespace {

using Key = std::pair<std::uint64_t, std::string>;  // hash of the plan, mode

std::map<Key, Samples> steps_of(const ValidationRun& run) {
  std::map<std::string, std::uint64_t> hash;
  for (const ReplayPlan& plan : run.plans) hash[plan.name] = plan.hash;
  std::map<Key, Samples> steps;
  for (const StepRow& row : run.steps)
    if (const auto plan = hash.find(row.plan);
        plan != hash.end() && row.verdict == Verdict::ok && row.step)
      steps[{plan->second, row.mode}].push_back(static_cast<double>(row.step->count()));
  return steps;
}

std::string card(const ValidationRun& run) {
  if (!run.machine) return "";
  const auto& more = run.machine->more;
  const auto found = std::ranges::find(more, "card", &std::pair<std::string, std::string>::first);
  return found == more.end() ? "" : found->second;
}

double ns(Duration d) { return static_cast<double>(d.count()); }

struct Replays {
  const ReplayPlan* plan = nullptr;
  ReplayPlan as_run;  // in the mode it was run in
  std::vector<const StepRow*> rows;
  std::vector<const TaskTimes*> timelines;
};

std::vector<Replays> replays_of(const ValidationRun& run) {
  std::map<std::string, const ReplayPlan*> by_name;
  for (const ReplayPlan& plan : run.plans) by_name[plan.name] = &plan;
  std::map<std::pair<std::string, std::string>, Replays> found;
  for (const StepRow& row : run.steps) {
    Replays& r = found[{row.plan, row.mode}];
    r.plan = by_name.at(row.plan);
    r.rows.push_back(&row);
  }
  for (const TaskTimes& times : run.timeline)
    if (const auto it = found.find({times.plan, times.mode}); it != found.end())
      it->second.timelines.push_back(&times);
  std::vector<Replays> all;
  for (auto& [key, replays] : found) {
    replays.as_run = *replays.plan;
    replays.as_run.mode = parse<SubmitMode>(key.second).value_or(SubmitMode::graph);
    all.push_back(std::move(replays));
  }
  return all;
}

Replay predicted(const ReplayPlan& plan, const Calibration& calibration, const Effects& effects) {
  return predict(plan, timing_of(plan, &calibration, effects));
}

double start_error(const Replays& replays, const Replay& ours, double step) {
  Samples off;
  for (const TaskTimes* times : replays.timelines)
    for (const auto& row : times->rows)
      off.push_back(std::abs(ns(row.start - ours.start[static_cast<std::size_t>(row.task)])));
  return median(std::move(off)) / step;
}

void score_memory(PlanScore& score, const Replays& replays, const Replay& ours) {
  const std::vector<Bytes> most = peaks(replays.as_run, ours);
  for (const StepRow* row : replays.rows) {
    if (row->verdict != Verdict::ok || row->peaks.size() != most.size()) continue;
    Bytes worst = score.peak_error.value_or(Bytes{});
    for (std::size_t d = 0; d < most.size(); ++d)
      worst.count = std::max(worst.count, std::abs(most[d].count - row->peaks[d].count));
    score.peak_error = worst;
  }
}

/// Equal for plans that differ in their names alone.
std::uint64_t content_of(ReplayPlan plan) {
  plan.name = "same";
  plan.hash = 0;
  Hash hash;
  hash.add(plan_text(plan));
  return hash.value();
}

PlanScore score_plan(const Replays& replays, const Calibration& calibration) {
  const Replay ours = predicted(replays.as_run, calibration, {});
  PlanScore score{.plan = replays.plan->name,
                  .group = replays.plan->name.substr(0, replays.plan->name.find('/')),
                  .mode = std::string(to_text(replays.as_run.mode)),
                  .layer = layer_of(replays.as_run, calibration, ours.step()),
                  .predicted = ns(ours.step()),
                  .replays = replays.rows.size(),
                  .content = content_of(*replays.plan)};
  if (score.layer == Layer::queues)
    score.given = ns(predict(replays.as_run, timing_of(replays.as_run, nullptr, {})).step());
  Samples steps;
  std::map<std::int64_t, Samples> by_round;
  for (const StepRow* row : replays.rows) {
    if (row->verdict == Verdict::failed) ++score.failed;
    if (row->verdict != Verdict::ok || !row->step) continue;
    steps.push_back(ns(*row->step));
    by_round[row->round].push_back(ns(*row->step));
  }
  if (!steps.empty()) {
    score.measured = bootstrap(steps, median);
    score.p5 = quantile(steps, 0.05);
    score.p95 = quantile(steps, 0.95);
    if (!replays.timelines.empty() && score.measured.value > 0.0)
      score.start_error = start_error(replays, ours, score.measured.value);
  }
  if (by_round.size() >= 2) {
    const auto& first = by_round.begin()->second;
    const auto& second = std::next(by_round.begin())->second;
    score.repeat = std::abs(median(second) / median(first) - 1.0);
  }
  score_memory(score, replays, ours);
  return score;
}

/// All plans once more, predicted otherwise.
Accuracy accuracy_of(const std::vector<Replays>& replays, std::vector<PlanScore> scores,
                     const Calibration& calibration, const Effects& effects) {
  for (std::size_t i = 0; i < scores.size(); ++i)
    if (scores[i].has_time())
      scores[i].predicted = ns(predicted(replays[i].as_run, calibration, effects).step());
  return accuracy(scores);
}

std::vector<Rival> rivals_of(const std::vector<Replays>& replays,
                             const std::vector<PlanScore>& scores, const Calibration& ours,
                             const std::vector<Measurement>& measurements) {
  const auto with = [&](const Calibration& calibration, const Effects& effects) {
    return accuracy_of(replays, scores, calibration, effects);
  };
  std::vector<Rival> rivals{{"calibrated", "all effects", with(ours, {})}};
  rivals.push_back({"no overheads", "op times and bandwidths as measured, nothing else",
                    with(ours, Effects::bare())});
  rivals.push_back({"Baechi's procedure",
                    "op times as measured, transfers by ordinary least squares, no gaps",
                    with(as_baechi(ours, measurements), {})});
  if (const auto datasheet = as_datasheet(ours))
    rivals.push_back({"datasheet roofline",
                      "peak flops of the partition, speed of the memory, no overheads",
                      with(*datasheet, {})});
  for (const EffectName& effect : effect_names()) {
    Effects without;
    without.*(effect.on) = false;
    rivals.push_back(
        {fmt::format("without {}", effect.name), std::string(effect.help), with(ours, without)});
  }
  return rivals;
}

MemoryScore memory_of(const std::vector<PlanScore>& plans) {
  MemoryScore m;
  for (const PlanScore& p : plans) {
    if (p.peak_error) {
      ++m.peaks;
      m.worst_peak_error = std::max(m.worst_peak_error, *p.peak_error);
    }
  }
  return m;
}

/// Kendall's tau over pairs whose measured intervals do not overlap; predicted ties count 0.
void rank_pairs(Ranking& ranking, const std::vector<const PlanScore*>& plans) {
  double sum = 0.0;
  for (std::size_t i = 0; i < plans.size(); ++i) {
    for (std::size_t j = 0; j < plans.size(); ++j) {
      const PlanScore &a = *plans[i], &b = *plans[j];
      if (a.measured.high >= b.measured.low) continue;  // a is not surely faster
      ++ranking.pairs;
      sum += a.predicted < b.predicted ? 1.0 : a.predicted > b.predicted ? -1.0 : 0.0;
    }
  }
  if (ranking.pairs > 0) ranking.kendall = sum / static_cast<double>(ranking.pairs);
}

/// Those of equal predictions, the longest prediction last.
std::vector<Tie> ties_of(const std::vector<const PlanScore*>& plans) {
  std::map<double, std::vector<const PlanScore*>> by_prediction;
  for (const PlanScore* p : plans) by_prediction[p->predicted].push_back(p);
  std::vector<Tie> ties;
  for (const auto& [predicted, equal] : by_prediction) {
    if (equal.size() < 2) continue;
    Tie tie{.same_plan = std::ranges::all_of(
                equal, [&](const PlanScore* p) { return p->content == equal[0]->content; })};
    for (const PlanScore* p : equal) tie.plans.push_back(p->plan);
    ties.push_back(std::move(tie));
  }
  return ties;
}

/// One plan per placement: the one whose measured step is the median, the lower one of two.
std::vector<const PlanScore*> placements_of(const std::vector<const PlanScore*>& plans) {
  std::map<std::uint64_t, std::vector<const PlanScore*>> by_content;
  for (const PlanScore* p : plans) by_content[p->content].push_back(p);
  std::vector<const PlanScore*> placements;
  for (auto& [content, same] : by_content) {
    std::ranges::stable_sort(same, {}, [](const PlanScore* p) { return p->measured.value; });
    placements.push_back(same[(same.size() - 1) / 2]);
  }
  std::ranges::sort(placements, {}, &PlanScore::plan);
  return placements;
}

/// Without what only a calibration of ours knows.
Calibration without_overheads(Calibration c) {
  for (auto& mode : c.modes) mode = {.mode = mode.mode};
  c.interference.clear();
  c.bandwidth = {};
  return c;
}

struct Squares {
  double intercept = 0.0, slope = 0.0;
};

/// Ordinary least squares; a constant if all x are equal.
Squares least_squares(const std::vector<std::pair<double, double>>& points) {
  const auto n = static_cast<double>(points.size());
  double x = 0.0, y = 0.0, xx = 0.0, xy = 0.0;
  for (const auto& [px, py] : points) {
    x += px / n;
    y += py / n;
  }
  for (const auto& [px, py] : points) {
    xx += (px - x) * (px - x);
    xy += (px - x) * (py - y);
  }
  const double slope = xx > 0.0 ? xy / xx : 0.0;
  return {y - slope * x, slope};
}

struct Datasheet {
  std::string_view name;
  double flops_per_ns, bytes_per_ns;
};
constexpr Datasheet datasheets[]{
    {"H200", 989e3, 4800.0}, {"H100", 989e3, 3350.0}, {"A100", 312e3, 2039.0}};

}  // namespace

Floor floor_between(const ValidationRun& here, const ValidationRun& there) {
  const std::string ours = card(here), theirs = card(there);
  Floor floor{.between = ours.empty() || theirs.empty() ? "runs"
                         : ours == theirs               ? "visits"
                                                        : "cards",
              .path = there.path};
  const auto before = steps_of(here), after = steps_of(there);
  Samples off;
  for (const auto& [key, steps] : before)
    if (const auto again = after.find(key); again != after.end())
      off.push_back(std::abs(median(again->second) / median(steps) - 1.0));
  floor.plans = off.size();
  if (off.empty()) return floor;
  floor.median = median(off);
  floor.p95 = quantile(off, 0.95);
  return floor;
}

Accuracy accuracy(const std::vector<PlanScore>& plans) {
  std::map<std::string, Samples> by_group;
  Samples absolute, errors;
  for (const PlanScore& p : plans) {
    if (!p.has_time()) continue;
    by_group[p.group].push_back(p.error());
    errors.push_back(p.error());
    absolute.push_back(std::abs(p.error()));
  }
  Accuracy a{.plans = errors.size()};
  if (errors.empty()) return a;
  a.median = median(absolute);
  a.p95 = quantile(absolute, 0.95);
  a.bias = median(errors);
  std::vector<Samples> groups;
  groups.reserve(by_group.size());
  for (auto& [name, samples] : by_group) groups.push_back(samples);
  Random random(1);
  const auto pick = [&](const auto& of) -> const auto& {
    return of[random.below(static_cast<std::uint32_t>(of.size()))];
  };
  Samples medians, biases;
  for (int round = 0; round < 400; ++round) {
    Samples some, some_absolute;
    for (std::size_t g = 0; g < groups.size(); ++g) {
      const Samples& group = pick(groups);
      for (std::size_t i = 0; i < group.size(); ++i) {
        some.push_back(pick(group));
        some_absolute.push_back(std::abs(some.back()));
      }
    }
    medians.push_back(median(std::move(some_absolute)));
    biases.push_back(median(std::move(some)));
  }
  a.median_interval = {a.median, quantile(medians, 0.025), quantile(medians, 0.975)};
  a.bias_interval = {a.bias, quantile(biases, 0.025), quantile(biases, 0.975)};
  return a;
}

std::vector<Ranking> rankings(const std::vector<PlanScore>& plans) {
  std::map<std::pair<std::string, std::string>, std::vector<const PlanScore*>> groups;
  for (const PlanScore& p : plans)
    if (p.has_time()) groups[{p.group, p.mode}].push_back(&p);
  std::vector<Ranking> all;
  for (const auto& [key, group] : groups) {
    const std::vector<const PlanScore*> placements = placements_of(group);
    if (placements.size() < 2) continue;
    Ranking r{.group = key.first,
              .mode = key.second,
              .plans = group.size(),
              .placements = placements.size()};
    Samples measured, predicted;
    for (const PlanScore* p : placements) {
      measured.push_back(p->measured.value);
      predicted.push_back(p->predicted);
    }
    r.ties = ties_of(group);
    r.steps = std::set<double>(predicted.begin(), predicted.end()).size();
    r.spread = (quantile(measured, 0.9) - quantile(measured, 0.1)) / median(measured);
    const double rho = spearman(predicted, measured);
    if (!std::isnan(rho)) r.spearman = rho;
    rank_pairs(r, placements);
    const auto best = std::ranges::min_element(predicted) - predicted.begin();
    r.regret = measured[static_cast<std::size_t>(best)] / *std::ranges::min_element(measured) - 1.0;
    all.push_back(r);
  }
  return all;
}

std::optional<double> skill(const Validation& validation, std::string_view rival) {
  const auto bare = std::ranges::find(validation.rivals, rival, &Rival::name);
  if (bare == validation.rivals.end() || bare->accuracy.median <= 0.0) return std::nullopt;
  return 1.0 - validation.rivals.front().accuracy.median / bare->accuracy.median;
}

Validation compare(const ValidationRun& run, const Calibration& calibration) {
  if (!run.machine) throw InputError(fmt::format("{}: no machine.txt", run.path));
  if (run.steps.empty()) throw InputError(fmt::format("{}: nothing in steps.csv", run.path));
  Validation v{.machine = *run.machine, .calibration = calibration};
  const std::vector<Replays> replays = replays_of(run);
  std::set<std::string> replayed;
  Samples repeats, starts, given, rest;
  for (const Replays& r : replays) {
    replayed.insert(r.plan->name);
    v.plans.push_back(score_plan(r, calibration));
    const PlanScore& p = v.plans.back();
    v.failed += p.failed;
    v.replays += p.replays;
    if (p.repeat && p.has_time()) repeats.push_back(*p.repeat);
    if (p.start_error && p.has_time()) starts.push_back(*p.start_error);
    if (p.given && p.has_time()) given.push_back(*p.given / p.measured.value);
    if (const auto error = p.error_of_rest()) rest.push_back(*error);
    const auto frozen = run.predictions.find(p.plan);
    if (frozen == run.predictions.end() || r.as_run.mode != r.plan->mode) continue;
    ++v.frozen;
    if (ns(frozen->second.replay.step()) == p.predicted) ++v.frozen_equal;
  }
  Samples canary;
  for (const Measurement& m : run.measurements)
    if (m.what == "canary") canary.push_back(m.value);
  if (!canary.empty() && median(canary) > 0.0)
    v.canary_spread = (quantile(canary, 0.95) - quantile(canary, 0.05)) / median(canary);
  v.not_replayed = run.plans.size() - replayed.size();
  v.repeats = repeats.size();
  v.noise_median = median(repeats);
  v.noise_p95 = quantile(repeats, 0.95);
  if (!starts.empty()) v.start_error = median(starts);
  if (!given.empty()) v.given_share = median(given);
  if (!rest.empty()) v.error_of_rest = median(rest);
  for (const Layer layer : all<Layer>()) {
    std::vector<PlanScore> of_layer;
    for (const PlanScore& p : v.plans)
      if (p.layer == layer) of_layer.push_back(p);
    const Accuracy a = accuracy(of_layer);
    if (a.plans > 0) v.layers.emplace_back(layer, a);
  }
  v.rankings = rankings(v.plans);
  v.rivals = rivals_of(replays, v.plans, calibration, run.measurements);
  v.memory = memory_of(v.plans);
  return v;
}

Calibration as_baechi(Calibration ours, const std::vector<Measurement>& rows) {
  ours = without_overheads(std::move(ours));
  for (auto& t : ours.transfers) {
    std::vector<std::pair<double, double>> points;  // bytes, ns
    for (const Measurement& m : rows) {
      if (m.what != "copy" || m.count != 1 || m.mode != t.mode || m.way != t.way ||
          m.subject != t.direction)
        continue;
      const auto fields = split(m.args, ' ');
      const auto bytes = parse_number<std::int64_t>(fields.front().text);
      const auto paced_ns = fields.size() > 1 ? parse_number<std::int64_t>(fields[1].text)
                                              : std::optional<std::int64_t>{0};
      if (!bytes || !paced_ns || (t.paced && *paced_ns == 0)) continue;
      points.emplace_back(static_cast<double>(*bytes), m.value - static_cast<double>(*paced_ns));
    }
    if (points.empty()) continue;
    const Squares fit = least_squares(points);
    t.latency_ns = t.occupancy_ns = exactly(std::max(fit.intercept, 0.0));
    t.shared = false;
    if (!t.paced) t.time = {.ns_per_unit = exactly(std::max(fit.slope, 0.0))};
  }
  return ours;
}

std::optional<Calibration> as_datasheet(Calibration ours) {
  const auto* const known = std::ranges::find_if(
      datasheets, [&](const Datasheet& d) { return ours.gpu.find(d.name) != std::string::npos; });
  if (known == std::end(datasheets) || ours.sms == 0 || ours.partitions.empty())
    return std::nullopt;
  const double share =
      static_cast<double>(ours.partitions.front().compute) / static_cast<double>(ours.sms);
  ours = without_overheads(std::move(ours));
  for (auto& t : ours.transfers) t.latency_ns = t.occupancy_ns = t.channel_ns = {};
  for (auto& op : ours.ops) {
    if (op.kind == "spin") continue;
    const double per_ns = op.kind == "ew" ? known->bytes_per_ns : share * known->flops_per_ns;
    op.time = {.ns_per_unit = exactly(1.0 / per_ns)};
  }
  return ours;
}

}  // namespace baechi::validate
