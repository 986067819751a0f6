#include "validate/validation_run.h"

#include <filesystem>
#include <optional>
#include <set>

#include "sim/error.h"
#include "traces/format/compressed_file.h"
#include "validate/plan/fields.h"

namespace baechi::validate {
namespace {

namespace fs = std::filesystem;

/// The file, or the compressed one of its name; nothing if there is neither.
std::optional<std::string> read_any(const std::string& path) {
  for (const char* ending : {"", ".gz", ".zst"})
    if (fs::is_regular_file(path + ending)) return read_file(path + ending);
  return std::nullopt;
}

/// `name` without the ending of a plan, compressed or not; nothing if it has none.
std::optional<std::string> stem_of_plan(std::string name) {
  for (const std::string_view ending : {".gz", ".zst"})
    if (name.ends_with(ending)) name.resize(name.size() - ending.size());
  constexpr std::string_view plan = ".plan";
  if (!name.ends_with(plan)) return std::nullopt;
  return name.substr(0, name.size() - plan.size());
}

/// File names of the plans in `folder`, by stem.
std::map<std::string, std::string> plan_files(const std::string& folder) {
  std::map<std::string, std::string> files;
  std::error_code ec;
  for (const auto& entry : fs::directory_iterator(folder, ec)) {
    const auto stem = stem_of_plan(entry.path().filename().string());
    if (stem && entry.is_regular_file()) files[*stem] = entry.path().string();
  }
  if (ec) throw InputError(fmt::format("{}: no such folder of plans", folder));
  return files;
}

void check_names(const std::vector<ReplayPlan>& plans, const std::string& folder) {
  std::set<std::string> names;
  Mistakes mistakes;
  for (const ReplayPlan& plan : plans)
    if (!names.insert(plan.name).second)
      mistakes.add(fmt::format("{}: two plans are called '{}'", folder, plan.name));
  mistakes.throw_if_any();
}

using PlansByName = std::map<std::string, const ReplayPlan*>;

/// The predictions beside the plans in `folder`.
void read_predictions(const std::string& folder, const PlansByName& plans, ValidationRun& run,
                      Mistakes& mistakes) {
  for (const auto& [stem, file] : plan_files(folder)) {
    const std::string name = fmt::format("{}/{}.prediction.csv", folder, stem);
    const auto text = read_any(name);
    if (!text) continue;
    Prediction p = parse_prediction(*text, name);
    const auto plan = plans.find(p.name);
    if (plan == plans.end() || plan->second->hash != p.hash ||
        plan->second->tasks.size() != p.replay.start.size())
      mistakes.add(fmt::format("{}: it is not of the plan beside it", name));
    run.predictions.emplace(p.name, std::move(p));
  }
}

/// Replays are of plans that are there.
void check_replays(const ValidationRun& run, const PlansByName& plans, Mistakes& mistakes) {
  std::set<std::string> unknown;
  for (const StepRow& row : run.steps)
    if (!plans.contains(row.plan)) unknown.insert("steps.csv: no plan '" + row.plan + "'");
  for (const TaskTimes& replay : run.timeline) {
    const auto plan = plans.find(replay.plan);
    if (plan == plans.end()) {
      unknown.insert("timeline.csv: no plan '" + replay.plan + "'");
      continue;
    }
    for (const auto& row : replay.rows)
      if (static_cast<std::size_t>(row.task) >= plan->second->tasks.size())
        unknown.insert(fmt::format("timeline.csv: no task {} in plan '{}'", row.task, replay.plan));
  }
  for (const std::string& what : unknown) mistakes.add(run.path + "/" + what);
}

}  // namespace

ReplayPlan read_plan(const std::string& path) {
  try {
    return parse_plan(read_file(path), path);
  } catch (const BadInput& mistakes) {
    throw InputError(mistakes.what());
  }
}

std::vector<ReplayPlan> read_plans(const std::string& folder) {
  std::vector<ReplayPlan> plans;
  for (const auto& [stem, file] : plan_files(folder)) plans.push_back(read_plan(file));
  check_names(plans, folder);
  return plans;
}

ValidationRun read_run(const std::string& path) {
  if (!fs::is_directory(path)) throw InputError(fmt::format("{}: no such folder", path));
  ValidationRun run;
  run.path = path;
  Mistakes mistakes;
  PlansByName by_name;
  if (fs::is_directory(path + "/plans")) {
    run.plans = read_plans(path + "/plans");
    for (const ReplayPlan& plan : run.plans) by_name[plan.name] = &plan;
    read_predictions(path + "/plans", by_name, run, mistakes);
  }
  if (const auto text = read_any(path + "/machine.txt"))
    run.machine = parse_machine(*text, path + "/machine.txt");
  if (const auto text = read_any(path + "/measurements.csv"))
    run.measurements = parse_measurements(*text, path + "/measurements.csv");
  if (const auto text = read_any(path + "/canaries.csv")) {
    const auto canaries = parse_measurements(*text, path + "/canaries.csv");
    run.measurements.insert(run.measurements.end(), canaries.begin(), canaries.end());
  }
  if (const auto text = read_any(path + "/steps.csv"))
    run.steps = parse_steps(*text, path + "/steps.csv");
  if (const auto text = read_any(path + "/timeline.csv"))
    run.timeline = parse_timeline(*text, path + "/timeline.csv");
  check_replays(run, by_name, mistakes);
  mistakes.throw_if_any();
  return run;
}

}  // namespace baechi::validate
