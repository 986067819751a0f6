#include "validate/export.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <memory>
#include <set>

#include "placers/registry.h"
#include "scenarios/read/calibration_file.h"
#include "scenarios/read/paths.h"
#include "scenarios/run/build.h"
#include "sim/file_aside.h"
#include "sim/hash.h"
#include "sim/random.h"
#include "validate/validation_run.h"

namespace baechi::validate {
namespace {

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

Replay write_plan(const std::string& stem, const ReplayPlan& plan, const Calibration* calibration,
                  Exported& exported) {
  Prediction p{.name = plan.name, .hash = plan.hash};
  p.replay = predict(plan, timing_of(plan, calibration, {}));
  p.peaks = peaks(plan, p.replay);
  p.verdict = runs_out(plan, p.peaks) ? Verdict::oom : Verdict::ok;
  const std::string text = plan_text(plan), beside = prediction_csv(p);
  write_aside(stem + ".plan", text);
  write_aside(stem + ".prediction.csv", beside);
  ++exported.plans;
  exported.bytes += text.size() + beside.size();
  exported.steps += p.replay.step();
  return p.replay;
}

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

/// The same plan, the device that is limited by turn having `fraction` of its predicted peak.
ReplayPlan with_budget(ReplayPlan plan, double fraction, const Calibration* calibration,
                       std::size_t turn) {
  const std::vector<Bytes> most = peaks(plan, predict(plan, timing_of(plan, calibration, {})));
  const Bytes largest = *std::ranges::max_element(most);
  std::vector<std::size_t> large;
  for (std::size_t d = 0; d < most.size(); ++d)
    if (2 * most[d].count >= largest.count) large.push_back(d);
  const std::size_t limited = large[turn % large.size()];
  const std::int64_t peak = most[limited].count;
  const std::int64_t away = calibration == nullptr ? 0 : 2 * calibration->granule.count;
  const std::int64_t wanted = (fraction * most[limited]).count;
  plan.budget[limited] = fraction < 1.0 ? std::min(wanted, std::max<std::int64_t>(peak - away, 0))
                                        : std::max(wanted, peak + away);
  plan.live_memory = true;
  plan.name += fmt::format("@{}", fraction);
  Hash hash;
  hash.add(static_cast<std::int64_t>(plan.hash));
  hash.add(plan.name);
  plan.hash = hash.value();
  return plan;
}

/// What a folder of plans had before must not be taken for what it gets now.
void empty_plans(const std::string& folder) {
  fs::create_directories(folder);
  for (const auto& entry : fs::directory_iterator(folder)) {
    const std::string name = entry.path().filename().string();
    if (name.find(".plan") != std::string::npos ||
        name.find(".prediction.csv") != std::string::npos)
      fs::remove(entry.path());
  }
}

/// A row's step, once more for its neighbours.
struct Rows {
  const Sweep& sweep;
  const ExportChoice& choice;
  const std::string salt;

  ReplayPlan plan(const RunResult& row, const Problem& problem, const Placement& placement,
                  const std::string& name) const {
    ClusterChoice uncalibrated = sweep.run(row.id).cluster;
    uncalibrated.calibration = {};
    const auto lengths = make_costs(uncalibrated, problem.graph, problem.cluster);
    return plan_of_step(problem, placement, name,
                        {.mode = choice.mode,
                         .bodies = choice.bodies,
                         .lengths = lengths.get(),
                         .calibration = choice.calibration ? &*choice.calibration : nullptr},
                        salt);
  }
};

/// The placement of a graph that is predicted best.
struct Best {
  const RunResult* row = nullptr;
  Duration step{};
};

}  // namespace

Exported export_plans(const Sweep& sweep, const ExportChoice& choice, const std::string& folder) {
  if (choice.bodies == Bodies::timed && !choice.calibration)
    throw InputError("bodies 'timed' need a calibration that says how long sizes take");
  RunSettings settings;
  settings.threads = choice.threads;
  const Results results = run(sweep, all_runs(sweep), settings);
  const Calibration* calibration = choice.calibration ? &*choice.calibration : nullptr;
  const std::string salt = calibration != nullptr ? calibration_yaml(*calibration) : "";

  empty_plans(folder + "/plans");
  Exported exported;
  GroupNames groups;
  std::set<std::string> names;
  std::map<std::string, Best> best;
  std::map<std::string, std::set<std::uint64_t>> known;  // placements, by graph
  const Rows rows{sweep, choice, salt};
  std::size_t placements = 0;
  const auto write = [&](const RunResult& row, const Problem& problem, const Placement& placement,
                         const std::string& graph, const std::string& name,
                         const std::string& prefix) {
    const ReplayPlan whole = rows.plan(row, problem, placement, name);
    if (calibration != nullptr) {
      const std::string outside = outside_calibration(whole, *calibration);
      if (!outside.empty()) exported.remarks.push_back("warning: " + outside);
    }
    const auto file = [&](const std::string& number, const ReplayPlan& plan) {
      return write_plan(fmt::format("{}/plans/{}_{}", folder, number, plain_file_name(name)), plan,
                        calibration, exported);
    };
    const std::size_t turn = placements++;
    const Replay replay = file(prefix, whole);
    known[graph].insert(hash_of(placement));
    exported.busy.add(graph, busy_share(whole, replay), hash_of(placement));
    for (const double fraction : choice.budgets)
      file(fmt::format("{}b{}", prefix, fraction), with_budget(whole, fraction, calibration, turn));
    return replay.step();
  };
  for (const RunResult& row : results.rows) {
    if (!row.is_step_time()) continue;  // a plan is of a step
    const std::string graph = groups.of(results, row, sweep.run(row.id));
    std::string name = fmt::format("{}/{}/{}", graph, plain(row.placer), row.seed);
    if (row.status != Status::ok && row.status != Status::oom) {
      exported.remarks.push_back(
          fmt::format("no plan of {}: {}: {}", name, to_text(row.status), row.detail));
      continue;
    }
    if (!names.insert(name).second) name += fmt::format("+{}", row.id);
    const ExperimentStep step = step_of(sweep, row);
    const Duration length =
        write(row, step.problem(), step.placement(), graph, name, fmt::format("{:04}", row.id));
    Best& of_graph = best[graph];
    if (of_graph.row == nullptr || length < of_graph.step) of_graph = {&row, length};
  }
  for (const auto& [graph, of_graph] : best) {
    const ExperimentStep step = step_of(sweep, *of_graph.row);
    const Problem problem = step.problem();
    const auto others = [&](const char* what, std::size_t wanted, const auto& placed) {
      constexpr std::uint64_t tries = 20;  // for each: a graph may have few placements
      std::size_t found = 0;
      for (std::uint64_t k = 1; found < wanted && k <= tries * wanted; ++k) {
        const Placement placement = placed(k);
        if (known[graph].contains(hash_of(placement))) continue;
        write(*of_graph.row, problem, placement, graph,
              fmt::format("{}/{}/{}", graph, what, ++found),
              fmt::format("{:04}{}{}", of_graph.row->id, what, found));
      }
    };
    others("near", choice.neighbours,
           [&](std::uint64_t k) { return neighbour(step.placement(), problem, k); });
    others("any", choice.at_random,
           [&, random = make_placer("random", Options("random"))](std::uint64_t k) {
             return random->place(problem, k);
           });
  }
  const std::string lacking = exported.busy.lacking(choice.least_busy, choice.distinct);
  if (!lacking.empty()) {
    empty_plans(folder + "/plans");
    throw InputError(lacking);
  }
  if (calibration != nullptr) write_aside(folder + "/calibration.yaml", salt);
  return exported;
}

}  // namespace baechi::validate
