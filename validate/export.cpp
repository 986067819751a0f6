#include "validate/export.h"

#include <filesystem>

#include "placers/interface/registry.h"
#include "scenarios/read/paths.h"
#include "scenarios/read/sections.h"
#include "sim/file_aside.h"
#include "sim/random.h"
#include "validate/run_files.h"

namespace baechi::validate {

namespace {

Duration step_with(const ReplayPlan& plan, const Calibration& calibration, const Effects& effects) {
  return predict(plan, timing_of(plan, &calibration, effects)).step();
}

/// Parts of the step in which no op runs, and in which two run.
PlanWorth busy_shares(const ReplayPlan& plan, const Replay& replay) {
  std::vector<std::pair<Duration, int>> changes;  // a device runs one op at a time
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    if (plan.tasks[i].transfer) continue;
    changes.emplace_back(replay.start[i], 1);
    changes.emplace_back(replay.end[i], -1);
  }
  std::ranges::sort(changes);
  Duration before{}, none{}, two{};
  int running = 0;
  for (const auto& [at, change] : changes) {
    if (running == 0) none += at - before;
    if (running >= 2) two += at - before;
    before = at;
    running += change;
  }
  const Duration step = replay.step();
  if (step == Duration::zero()) return {};
  none += step - before;
  const auto whole = static_cast<double>(step.count());
  return {.none = static_cast<double>(none.count()) / whole,
          .two = static_cast<double>(two.count()) / whole};
}

std::string_view body_unit(BodyKind kind) {
  return kind == BodyKind::spin ? "ns" : kind == BodyKind::ew ? "bytes" : "flops";
}

/// Ops and transfers that are smaller or larger than anything a calibration has measured.
class OutsideSizes {
 public:
  void add(const std::string& graph, const ReplayPlan& plan, const Calibration& calibration);
  /// A line per graph and kind of task: their number, their sizes, and the calibrated sizes.
  std::vector<std::string> lines() const;

 private:
  struct Range {
    double least = 0.0, most = 0.0;
    std::size_t outside = 0;
    double known_least = 0.0, known_most = 0.0;
  };
  std::map<std::pair<std::string, std::string>, Range> ranges_;  // by graph and kind
};

void OutsideSizes::add(const std::string& graph, const ReplayPlan& plan,
                       const Calibration& calibration) {
  for (const Task& t : plan.tasks) {
    const FittedTime* known = nullptr;
    std::string what;
    double amount = t.body.amount();
    if (t.transfer) {
      amount = static_cast<double>(t.bytes);
      const auto* transfer = transfer_of(plan, calibration, t);
      if (transfer == nullptr || transfer->paced) continue;
      known = &transfer->time;
      what = fmt::format("transfers by {} in bytes", to_text(plan.way));
    } else {
      const auto* op = calibration.find_op(to_text(t.body.kind), to_text(plan.mode));
      if (op == nullptr) continue;
      known = &op->time;
      what = fmt::format("ops of kind {} in {}", to_text(t.body.kind), body_unit(t.body.kind));
    }
    if (amount == 0.0 || known->covers(amount)) continue;  // of 0 only the launch takes time
    Range& range = ranges_[{graph, what}];
    range.least = range.outside == 0 ? amount : std::min(range.least, amount);
    range.most = std::max(range.most, amount);
    range.known_least = known->least;
    range.known_most = known->most;
    ++range.outside;
  }
}

std::vector<std::string> OutsideSizes::lines() const {
  std::vector<std::string> lines;
  for (const auto& [of, r] : ranges_)
    lines.push_back(fmt::format(
        "{}: over all its plans {} {} ({:.3g} to {:.3g}) are outside of what was calibrated "
        "({:.3g} to {:.3g})",
        of.first, r.outside, of.second, r.least, r.most, r.known_least, r.known_most));
  return lines;
}

namespace fs = std::filesystem;

/// What may stand in a plan's name.
std::string plain(std::string text) {
  constexpr std::string_view others = "_.:@=+-";
  for (char& c : text) {
    const bool letter = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9');
    if (!letter && others.find(c) == std::string_view::npos) c = '_';
  }
  return text.substr(0, 60);
}

/// What plans are of, SCENARIO.GRAPH: its points share a name between files, so that several may
/// place one graph, and not within one.
class GroupNames {
 public:
  std::string of(const Results& results, const RunResult& row, const Run& run) {
    const auto known = names_.find({run.scenario, run.point});
    if (known != names_.end()) return known->second;
    std::string name =
        plain(results.scenarios[row.scenario].name + "." + results.graphs[row.graph].name);
    if (!taken_.emplace(run.scenario, name).second) name += fmt::format("+{}", run.point);
    return names_[{run.scenario, run.point}] = name;
  }

 private:
  std::map<std::pair<std::size_t, std::size_t>, std::string> names_;  // by scenario and point
  std::set<std::pair<std::size_t, std::string>> taken_;
};

std::uint64_t hash_of(const Placement& placement) {
  Hash hash;
  for (const DeviceId d : placement.device) hash.add(static_cast<std::int64_t>(index(d)));
  return hash.value();
}

/// `placement` with one op, and its group, on another device: the same for the same `number`.
Placement neighbour(Placement placement, const Problem& problem, std::uint64_t number) {
  Random random(number);
  const auto ops = static_cast<std::uint32_t>(problem.graph.num_ops());
  const auto devices = static_cast<std::uint32_t>(problem.cluster.num_devices());
  const OpId moved{random.below(ops)};
  const auto step = 1 + random.below(devices - 1);
  const DeviceId there{static_cast<std::uint32_t>(index(placement.device[moved]) + step) % devices};
  const GroupId group = problem.graph.op(moved).group;
  for (const OpId v : problem.graph.ops())
    if (v == moved || (group != no_group && problem.graph.op(v).group == group))
      placement.device[v] = there;
  return placement;
}

/// Removes the plans of an earlier export.
void empty_plans(const std::string& folder) {
  fs::create_directories(folder);
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.find(".plan") != std::string::npos ||
        name.find(".prediction.csv") != std::string::npos)
      fs::remove(entry.path());
  }
}

/// The placement of a graph that is predicted best.
struct Best {
  const RunResult* row = nullptr;
  Duration step{};
};

/// Gathers plans and their predictions, and writes them once the set is known to be good.
class Exporter {
 public:
  Exporter(const Sweep& sweep, const ExportChoice& choice)
      : sweep_(sweep),
        choice_(choice),
        calibration_(choice.calibration ? &*choice.calibration : nullptr),
        salt_(calibration_ != nullptr ? calibration_yaml(*calibration_) : "") {}

  /// The plan of every run that has a step.
  void add_runs(const Results& results);
  /// Neighbours of each graph's best placement, and placements at random.
  void add_others();
  /// Throws InputError, and writes nothing, if the set lacks what `choice` asks for.
  Exported write(const std::string& folder);

 private:
  struct File {
    std::string stem;  // of its name
    std::string plan, prediction;
  };

  ReplayPlan plan_of(const RunResult& row, const Problem& problem, const Placement& placement,
                     const std::string& name) const;
  /// Returns what is predicted for a step.
  Duration add(const RunResult& row, const Problem& problem, const Placement& placement,
               const std::string& graph, const std::string& name, const std::string& prefix);
  Replay add_file(const std::string& stem, const ReplayPlan& plan);

  const Sweep& sweep_;
  const ExportChoice& choice_;
  const Calibration* calibration_;  // none: null
  std::string salt_;
  Exported exported_;
  OutsideSizes outside_;
  std::vector<File> files_;
  std::map<std::string, Best> best_;                      // by graph
  std::map<std::string, std::set<std::uint64_t>> known_;  // placements, by graph
};

ReplayPlan Exporter::plan_of(const RunResult& row, const Problem& problem,
                             const Placement& placement, const std::string& name) const {
  ClusterChoice uncalibrated = sweep_.run(row.id).cluster;
  uncalibrated.calibration = {};
  const auto lengths = make_costs(uncalibrated, problem.graph, problem.cluster);
  return plan_of_step(problem, placement, name,
                      {.mode = choice_.mode,
                       .bodies = choice_.bodies,
                       .lengths = lengths.get(),
                       .calibration = calibration_},
                      salt_);
}

Replay Exporter::add_file(const std::string& stem, const ReplayPlan& plan) {
  Prediction p{.name = plan.name, .hash = plan.hash};
  p.replay = predict(plan, timing_of(plan, calibration_, {}));
  p.peaks = peaks(plan, p.replay);
  files_.push_back({stem, plan_text(plan), prediction_csv(p)});
  exported_.steps += p.replay.step();
  return p.replay;
}

Duration Exporter::add(const RunResult& row, const Problem& problem, const Placement& placement,
                       const std::string& graph, const std::string& name,
                       const std::string& prefix) {
  const ReplayPlan whole = plan_of(row, problem, placement, name);
  if (calibration_ != nullptr) outside_.add(graph, whole, *calibration_);
  const std::string stem = plain_file_name(name);
  const Replay replay = add_file(fmt::format("{}_{}", prefix, stem), whole);
  known_[graph].insert(hash_of(placement));
  exported_.worth.add(graph, worth_of(whole, replay, calibration_), hash_of(placement));
  return replay.step();
}

void Exporter::add_runs(const Results& results) {
  GroupNames groups;
  std::set<std::string> names;
  for (const RunResult& row : results.rows) {
    if (!row.is_step_time()) continue;  // a plan is of a step
    const std::string graph = groups.of(results, row, sweep_.run(row.id));
    std::string name = fmt::format("{}/{}/{}", graph, plain(row.placer), row.seed);
    if (row.status != Status::ok && row.status != Status::oom) {
      exported_.remarks.push_back(
          fmt::format("no plan of {}: {}: {}", name, to_text(row.status), row.detail));
      continue;
    }
    if (!names.insert(name).second) name += fmt::format("+{}", row.id);
    const ExperimentStep step = step_of(sweep_, row);
    const Duration length =
        add(row, step.problem(), step.placement(), graph, name, fmt::format("{:04}", row.id));
    Best& of_graph = best_[graph];
    if (of_graph.row == nullptr || length < of_graph.step) of_graph = {&row, length};
  }
}

void Exporter::add_others() {
  const auto random = make_placer("random", Options("random"));
  for (const auto& [graph, of_graph] : best_) {
    const ExperimentStep step = step_of(sweep_, *of_graph.row);
    const Problem problem = step.problem();
    const auto others = [&](const char* what, std::size_t wanted, const auto& placed) {
      constexpr std::uint64_t tries = 20;  // for each: a graph may have few placements
      std::size_t found = 0;
      for (std::uint64_t k = 1; found < wanted && k <= tries * wanted; ++k) {
        const Placement placement = placed(k);
        if (known_[graph].contains(hash_of(placement))) continue;
        add(*of_graph.row, problem, placement, graph, fmt::format("{}/{}/{}", graph, what, ++found),
            fmt::format("{:04}{}{}", of_graph.row->id, what, found));
      }
    };
    others("near", choice_.neighbours,
           [&](std::uint64_t k) { return neighbour(step.placement(), problem, k); });
    others("any", choice_.at_random, [&](std::uint64_t k) { return random->place(problem, k); });
  }
}

Exported Exporter::write(const std::string& folder) {
  const std::string lacking = exported_.worth.lacking(choice_.least);
  if (!lacking.empty()) throw InputError(lacking);
  empty_plans(folder + "/plans");
  for (const File& file : files_) {
    const std::string stem = fmt::format("{}/plans/{}", folder, file.stem);
    write_aside(stem + ".plan", file.plan);
    write_aside(stem + ".prediction.csv", file.prediction);
    exported_.bytes += file.plan.size() + file.prediction.size();
  }
  exported_.plans = files_.size();
  for (const std::string& line : outside_.lines()) exported_.remarks.push_back("warning: " + line);
  if (calibration_ != nullptr) write_aside(folder + "/calibration.yaml", salt_);
  return std::move(exported_);
}

}  // namespace

LayerTarget target_of(Layer layer) {
  switch (layer) {
    case Layer::queues:
      return {0.01, 0.02};
    case Layer::real:
      return {0.025, 0.06};
    case Layer::contended:
      return {0.05, 0.12};
  }
  return {};
}

Layer layer_of(const ReplayPlan& plan, const Calibration& calibration, Duration step) {
  const bool exact = plan.way == Way::link && std::ranges::all_of(plan.tasks, [](const Task& t) {
                       return t.transfer || t.body.kind == BodyKind::spin;
                     });
  if (exact) return Layer::queues;
  Effects alone;
  alone.interference = false;
  const auto undisturbed = static_cast<double>(step_with(plan, calibration, alone).count());
  return static_cast<double>(step.count()) > 1.01 * undisturbed ? Layer::contended : Layer::real;
}

PlanWorth worth_of(const ReplayPlan& plan, const Replay& replay, const Calibration* calibration) {
  PlanWorth worth = busy_shares(plan, replay);
  const Duration step = replay.step();
  if (calibration == nullptr || step == Duration::zero()) return worth;
  const auto bare = static_cast<double>(step_with(plan, *calibration, Effects::bare()).count());
  const double error = std::abs(bare / static_cast<double>(step.count()) - 1.0);
  worth.overheads = error / target_of(layer_of(plan, *calibration, step)).median;
  return worth;
}

void SetWorth::add(const std::string& graph, PlanWorth worth, std::uint64_t placement) {
  Graph& g = graphs_[graph];
  g.none.push_back(worth.none);
  g.two.push_back(worth.two);
  g.overheads.push_back(worth.overheads);
  g.placements.insert(placement);
}

std::vector<std::string> SetWorth::lines() const {
  std::vector<std::string> all;
  for (const auto& [name, g] : graphs_)
    all.push_back(fmt::format(
        "{}: {} placements, {} distinct; in the median no op runs in {:.0f} % of the step, two "
        "devices or more are busy in {:.0f} %, and a model without overheads is off by {:.1f} "
        "times the target",
        name, g.two.size(), g.placements.size(), 100.0 * median(g.none), 100.0 * median(g.two),
        median(g.overheads)));
  return all;
}

std::string SetWorth::lacking(const LeastWorth& least) const {
  std::string text;
  const auto add = [&](const std::string& line) { text += (text.empty() ? "" : "\n") + line; };
  for (const auto& [name, g] : graphs_) {
    const auto enough =
        std::ranges::count_if(g.two, [&](double share) { return share >= least.busy; });
    if (least.busy > 0.0 && 2 * static_cast<std::size_t>(enough) < g.two.size())
      add(fmt::format("{}: only {} of {} placements keep two devices busy for {:.0f} % of the step",
                      name, enough, g.two.size(), 100.0 * least.busy));
    if (median(g.overheads) < least.overheads)
      add(fmt::format(
          "{}: a model without overheads is off by {:.1f} times the target in the median, not by "
          "{:g} times: these plans cannot tell it from ours",
          name, median(g.overheads), least.overheads));
    if (g.placements.size() < least.distinct)
      add(fmt::format("{}: only {} distinct placements, not {}", name, g.placements.size(),
                      least.distinct));
  }
  return text;
}

Exported export_plans(const Sweep& sweep, const ExportChoice& choice, const std::string& folder,
                      const Watch& watch) {
  if (choice.bodies == Bodies::timed && !choice.calibration)
    throw InputError("bodies 'timed' need a calibration that says how long sizes take");
  if (choice.least.overheads > 0.0 && !choice.calibration)
    throw InputError("without a calibration there are no overheads that a set could show");
  std::atomic<std::size_t> done = 0;
  auto watched = begin_watch(watch, done, sweep.num_runs());
  const Results results =
      run(sweep, all_runs(sweep), {.threads = choice.threads, .stop = nullptr, .done = &done});
  watched.reset();
  Exporter exporter(sweep, choice);
  exporter.add_runs(results);
  exporter.add_others();
  return exporter.write(folder);
}

}  // namespace baechi::validate
