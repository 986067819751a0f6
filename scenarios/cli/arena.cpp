#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "placers/registry.h"
#include "scenarios/arena/known.h"
#include "scenarios/cli/arguments.h"
#include "scenarios/cli/output.h"
#include "scenarios/cli/progress.h"
#include "scenarios/cli/verbs.h"
#include "scenarios/read/data_folder.h"
#include "scenarios/read/load.h"
#include "scenarios/run/runner.h"
#include "sim/error.h"

namespace baechi {
namespace {

namespace fs = std::filesystem;

struct ArenaArguments {
  std::string placer, folder = "scenarios/arena";
  std::size_t threads = 1;
  bool json = false, update = false;
};

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

/// All instances, placed by `placer` alone.
Sweep sweep_of(const ArenaArguments& arguments, const std::string& folder) {
  Mistakes mistakes;
  std::vector<ScenarioFile> files = load_scenarios(scenario_paths(folder), {}, mistakes);
  for (ScenarioFile& file : files) {
    PlacerChoice placer{parse_choice(arguments.placer, "--placer")};
    placer.text = placer.label = arguments.placer;
    placer.placer = make_placer(placer.name, placer.options, placer.where);
    file.placers = {std::move(placer)};
    file.seeds = {1};
    file.report = {};
  }
  Sweep sweep = make_sweep(std::move(files), arguments.threads, mistakes);
  mistakes.throw_if_any();
  return sweep;
}

std::string ranking_text(const std::vector<ArenaScore>& ranking, std::size_t instances,
                         const std::string& placer) {
  Columns columns({"placer", "rank", "score", "solved", "failures"});
  for (std::size_t i = 0; i < ranking.size(); ++i) {
    const ArenaScore& s = ranking[i];
    columns.add({s.placer == placer ? bold(s.placer) : s.placer, fmt::format("{}", i + 1),
                 fmt::format("{:.4f}", s.score), fmt::format("{}", s.solved),
                 fmt::format("{}", instances - s.solved)});
  }
  return columns.text() +
         fmt::format(
             "score: geometric mean of step time / best known over {} instances; a failure, "
             "and at most, {:g}\n",
             instances, arena_failure);
}

int compete(const ArenaArguments& arguments) {
  const std::string folder = with_data_folder(arguments.folder);
  const std::string known = folder + "/known.json";
  Arena arena = Arena::read(known);
  if (arguments.placer.empty()) {
    print_out(ranking_text(arena.ranking(), arena.size(), ""));
    return 0;
  }
  const Sweep sweep = sweep_of(arguments, folder);
  std::vector<std::size_t> ids = all_runs(sweep);
  std::atomic<std::size_t> done{0};
  Results results;
  {
    const Progress progress(done, ids.size(), arguments.json);
    results = run(sweep, ids, {.threads = arguments.threads, .done = &done});
  }
  Duration placing{};
  std::size_t solved = 0;
  for (const RunResult& row : results.rows) {
    placing += row.placing;
    solved += row.value ? 1U : 0U;
  }
  const std::vector<std::string> improved = arena.take(results);
  if (arguments.update) arena.write(known);
  const ArenaScore score = arena.score(arguments.placer);
  const std::vector<ArenaScore> ranking = arena.ranking();
  const auto place = std::ranges::find(ranking, arguments.placer, &ArenaScore::placer);
  const auto rank = static_cast<std::size_t>(place - ranking.begin()) + 1;
  if (arguments.json) {
    nlohmann::ordered_json others = nlohmann::ordered_json::array();
    for (const ArenaScore& s : ranking)
      others.push_back({{"name", s.placer}, {"score", s.score}, {"solved", s.solved}});
    print_json({{"placer", arguments.placer},
                {"score", score.score},
                {"instances", results.rows.size()},
                {"solved", solved},
                {"failures", results.rows.size() - solved},
                {"placing_s", static_cast<double>(placing.count()) / 1e9},
                {"rank", rank},
                {"improved", improved},
                {"ranking", std::move(others)}});
    return 0;
  }
  std::string text = ranking_text(ranking, arena.size(), arguments.placer);
  text += fmt::format("{}: rank {} of {}, score {:.4f}, {} of {} solved, placed in {}\n",
                      arguments.placer, rank, ranking.size(), score.score, solved,
                      results.rows.size(), to_text(placing));
  if (!improved.empty())
    text += fmt::format("better than all known on {} instances{}\n", improved.size(),
                        arguments.update ? "" : " (--update-best keeps them)");
  print_out(text);
  return 0;
}

}  // namespace

void add_arena(CLI::App& app, Verb& chosen) {
  const auto arguments = std::make_shared<ArenaArguments>();
  CLI::App* verb =
      app.add_subcommand("arena", "Try a placer on the arena's instances, and rank it");
  verb->add_option("--placer", arguments->placer,
                   "The placer, as in 'baechi place'; without it, the known placers are ranked")
      ->type_name("NAME[:k=v,...]");
  verb->add_flag("--json", arguments->json, "Print JSON, for programs");
  verb->add_flag("--update-best", arguments->update,
                 "Put the placer's values, and best values that are better, into known.json");
  verb->add_option("--instances", arguments->folder,
                   "Folder with instances/*.yaml and known.json [the arena's]")
      ->type_name("DIR");
  verb->add_option("-j", arguments->threads, "Threads [1]")
      ->type_name("N")
      ->check(CLI::Range(1, 1024));
  verb->footer(
      "An instance is a graph on a cluster with some memory. Its best known value is the least "
      "step\n"
      "time of any placer so far, simulated with memory enforced. A program of yours has the "
      "limits\n"
      "that 'exec' placers have.\n"
      "Examples:\n"
      "  baechi arena\n"
      "  baechi arena --placer m_etf\n"
      "  baechi arena --placer exec:./mine.py --json");
  verb->callback([&chosen, arguments] { chosen = [arguments] { return compete(*arguments); }; });
}

}  // namespace baechi
