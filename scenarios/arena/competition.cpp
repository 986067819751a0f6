#include "scenarios/arena/competition.h"

#include <stdlib.h>

#include <filesystem>

#include "placers/external/child_process.h"
#include "placers/interface/registry.h"
#include "scenarios/arena/instances.h"
#include "scenarios/read/choice_text.h"
#include "scenarios/run/runner.h"
#include "sim/file_aside.h"

namespace baechi {
namespace {

namespace fs = std::filesystem;

/// The baselines that run on hidden instances in addition to the competing placer.
constexpr const char* baselines[] = {"single",  "round_robin", "random",   "least_loaded",
                                     "m_topo",  "m_etf",       "m_sct",    "heft",
                                     "coarsen", "fill",        "balanced", "auto"};

/// The scenario files of the arena, by name.
std::vector<std::string> scenario_paths(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder + "/instances", none))
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path().string());
  if (paths.empty()) throw InputError(fmt::format("{}/instances: no scenario files", folder));
  std::ranges::sort(paths);
  return paths;
}

constexpr std::string_view exec = "exec:";

/// `known`: the file of best values, which is hidden from external programs; "": none.
PlacerChoice placer_choice(const std::string& text, const std::string& known) {
  PlacerChoice placer{parse_choice(text, "--placer")};
  if (placer.name.starts_with(exec)) {  // the working folder will be another one
    placer.name = fmt::format("{}{}", exec, fs::absolute(placer.name.substr(exec.size())).string());
    if (fs::exists(known)) placer.options.set("hide", {known, {}, {}});
  } else if (text.find(exec) != std::string::npos) {
    throw InputError(
        "--placer: a program competes by itself (exec:PATH), not within another placer");
  }
  placer.text = placer.label = text;
  placer.placer = make_placer(placer.name, placer.options, placer.where);
  return placer;
}

/// The hidden instances of a seed; also written to the folder `output`, unless that is "".
std::vector<ScenarioFile> hidden_files(std::uint64_t seed, const std::string& output,
                                       const Watch& making, Mistakes& mistakes) {
  const std::atomic<std::size_t> unknown{0};
  const auto shown = begin_watch(making, unknown, 0);
  std::vector<ScenarioFile> files;
  for (const ArenaFile& file : make_arena_files(seed)) {
    if (!output.empty()) {
      fs::create_directories(output + "/instances");
      write_aside(fmt::format("{}/instances/{}.yaml", output, file.name), file.text);
    }
    files.push_back(parse_scenario(file.text, file.name + ".yaml", {}, mistakes));
  }
  return files;
}

/// All instances, placed by `placers`.
Sweep sweep_of(const Competition& competition, const std::string& folder,
               const std::vector<PlacerChoice>& placers, const Watch& making) {
  Mistakes mistakes;
  std::vector<ScenarioFile> files =
      competition.hidden ? hidden_files(*competition.hidden, competition.output, making, mistakes)
                         : load_scenarios(scenario_paths(folder), {}, mistakes);
  for (ScenarioFile& file : files) {
    file.placers = placers;
    file.seeds = {1};
    file.report = {.placements = false, .pictures = 0};
  }
  Sweep sweep = make_sweep(std::move(files), competition.threads, mistakes);
  mistakes.throw_if_any();
  return sweep;
}

/// Makes an empty folder the working folder for its lifetime.
class EmptyFolder {
 public:
  EmptyFolder() : before_(fs::current_path()) {
    std::string name = (fs::temp_directory_path() / "baechi-arena-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw InputError(name + ": cannot be made");
    folder_ = name;
    fs::current_path(folder_);
  }
  ~EmptyFolder() {
    std::error_code ignored;
    fs::current_path(before_, ignored);
    fs::remove_all(folder_, ignored);
  }
  EmptyFolder(const EmptyFolder&) = delete;
  EmptyFolder& operator=(const EmptyFolder&) = delete;

 private:
  fs::path before_, folder_;
};

std::vector<PlacerChoice> placers_of(const Competition& competition, const std::string& known) {
  std::vector<PlacerChoice> placers;
  if (competition.hidden)
    for (const char* baseline : baselines)
      if (baseline != competition.placer) placers.push_back(placer_choice(baseline, known));
  if (!competition.placer.empty()) placers.push_back(placer_choice(competition.placer, known));
  return placers;
}

Results run_placers(const Competition& competition, const std::string& folder,
                    const std::vector<PlacerChoice>& placers, const Watch& making,
                    const Watch& running) {
  const Sweep sweep = sweep_of(competition, folder, placers, making);
  const std::vector<std::size_t> ids = all_runs(sweep);
  std::atomic<std::size_t> done{0};
  const EmptyFolder empty_folder;
  const auto shown = begin_watch(running, done, ids.size());
  Results results =
      run(sweep, ids, {.threads = competition.threads, .stop = competition.stop, .done = &done});
  results.missing = ids.size() - results.rows.size();
  return results;
}

/// The protection that the kernel cannot give against `placer`, an external program; "": none.
std::string unguarded(const std::string& placer) {
  if (!placer.starts_with(exec)) return "";
  switch (external::kernel_guard()) {
    case external::Guard::nothing:
      return "this kernel has no Landlock: the program could read known.json, and send signals";
    case external::Guard::files:
      return "this kernel's Landlock is older than version 6: the program could send signals";
    case external::Guard::files_and_signals:
      break;
  }
  return "";
}

}  // namespace

CompetitionResult compete(const Competition& competition, const Watch& making,
                          const Watch& running) {
  if (competition.hidden && competition.update_best)
    throw InputError("--update-best: hidden instances have no file of best values");
  const std::string folder = fs::absolute(competition.folder).string();
  const std::string known = folder + "/known.json";
  Arena arena = competition.hidden ? Arena{} : Arena::read(known);
  CompetitionResult result;
  if (competition.hidden || !competition.placer.empty()) {
    const std::vector<PlacerChoice> placers = placers_of(competition, known);
    const Results results = run_placers(competition, folder, placers, making, running);
    result.outcome = outcome_of(results, competition.placer);
    std::vector<std::string> improved = arena.take(results);
    if (!competition.hidden) result.improved = std::move(improved);
    result.unguarded = unguarded(competition.placer);
    result.missing = results.missing;
    if (result.missing > 0) arena.keep_run(results, placers.size());
  }
  if (competition.update_best && !competition.placer.empty() && result.missing == 0)
    arena.write(known);
  result.ranking = arena.ranking();
  result.instances = arena.size();
  result.arena = std::move(arena);
  if (competition.placer.empty()) return result;
  const auto place = std::ranges::find(result.ranking, competition.placer, &ArenaScore::placer);
  result.rank = static_cast<std::size_t>(place - result.ranking.begin()) + 1;
  return result;
}

}  // namespace baechi
