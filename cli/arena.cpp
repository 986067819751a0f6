#include <fmt/format.h>
#include <stdlib.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "placers/interface/registry.h"
#include "scenarios/arena/instances.h"
#include "scenarios/arena/known.h"
#include "scenarios/read/data_folder.h"
#include "scenarios/read/load.h"
#include "scenarios/run/runner.h"
#include "sim/error.h"
#include "sim/file_aside.h"

namespace baechi {
namespace {

namespace fs = std::filesystem;

struct ArenaArguments {
  std::string placer, folder = "scenarios/arena", output;
  std::size_t threads = 1;
  std::optional<std::uint64_t> hidden;
  bool json = false, markdown = false, update = false;
};

/// Those that run on hidden instances beside the one that is tried.
constexpr const char* rivals[] = {"single", "round_robin", "random", "least_loaded", "m_topo",
                                  "m_etf",  "m_sct",       "heft",   "coarsen",      "auto"};

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

PlacerChoice made_placer(const std::string& text) {
  PlacerChoice placer{parse_choice(text, "--placer")};
  constexpr std::string_view program = "exec:";
  if (placer.name.starts_with(program))  // it will run in another folder
    placer.name =
        fmt::format("{}{}", program, fs::absolute(placer.name.substr(program.size())).string());
  placer.text = placer.label = text;
  placer.placer = make_placer(placer.name, placer.options, placer.where);
  return placer;
}

/// The hidden instances of a seed; written to `output`, too, if that is not "".
std::vector<ScenarioFile> hidden_files(std::uint64_t seed, const std::string& output,
                                       Mistakes& mistakes) {
  const Stage stage("making instances");
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
Sweep sweep_of(const ArenaArguments& arguments, const std::string& folder,
               const std::vector<PlacerChoice>& placers) {
  Mistakes mistakes;
  std::vector<ScenarioFile> files =
      arguments.hidden ? hidden_files(*arguments.hidden, arguments.output, mistakes)
                       : load_scenarios(scenario_paths(folder), {}, mistakes);
  for (ScenarioFile& file : files) {
    file.placers = placers;
    file.seeds = {1};
    file.report = {.placements = false, .pictures = 0};
  }
  Sweep sweep = make_sweep(std::move(files), arguments.threads, mistakes);
  mistakes.throw_if_any();
  return sweep;
}

/// While it lives, the working folder is an empty one: a placer that is a program finds no file of
/// the arena by a relative path.
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

std::string score_text(const ArenaScore& score) {
  return score.score ? fmt::format("{:.4f}", *score.score) : "-";
}

nlohmann::ordered_json score_json(const ArenaScore& score) {
  return score.score ? nlohmann::ordered_json(*score.score) : nlohmann::ordered_json();
}

std::string ranking_text(const std::vector<ArenaScore>& ranking, std::size_t instances,
                         const std::string& placer) {
  Columns columns({"placer", "rank", "score", "solved", "failures"});
  for (std::size_t i = 0; i < ranking.size(); ++i) {
    const ArenaScore& s = ranking[i];
    columns.add({s.placer == placer ? bold(s.placer) : s.placer, fmt::format("{}", i + 1),
                 score_text(s), fmt::format("{}", s.solved),
                 fmt::format("{}", instances - s.solved)});
  }
  return columns.text() +
         fmt::format(
             "score: geometric mean of step time / best known over {} instances; a failure, "
             "and at most, {:g}; placers with failures stand behind those without\n",
             instances, failure_ratio);
}

std::string ranking_markdown(const std::vector<ArenaScore>& ranking, std::size_t instances) {
  std::string text =
      fmt::format("| placer | score | solved of {} |\n| --- | ---: | ---: |\n", instances);
  for (const ArenaScore& s : ranking)
    text += fmt::format("| `{}` | {} | {} |\n", s.placer, score_text(s), s.solved);
  return text;
}

/// The runs of all placers on all instances.
Results run_placers(const ArenaArguments& arguments, const std::string& folder) {
  std::vector<PlacerChoice> placers;
  if (arguments.hidden)
    for (const char* rival : rivals)
      if (rival != arguments.placer) placers.push_back(made_placer(rival));
  if (!arguments.placer.empty()) placers.push_back(made_placer(arguments.placer));
  const Sweep sweep = sweep_of(arguments, folder, placers);
  std::vector<std::size_t> ids = all_runs(sweep);
  std::atomic<std::size_t> done{0};
  const EmptyFolder elsewhere;
  const Progress progress(done, ids.size(), arguments.json);
  return run(sweep, ids, {.threads = arguments.threads, .done = &done});
}

/// "2 infeasible, first: a.v1: m_etf: stuck ...", a line for each kind of failure.
std::string failures_text(const ArenaOutcome& outcome) {
  std::string text;
  for (const auto& [status, failure] : outcome.failures)
    text += fmt::format("{} {}, first: {}\n", failure.count, to_text(status), failure.first);
  return text;
}

nlohmann::ordered_json outcome_json(const ArenaOutcome& outcome) {
  using Json = nlohmann::ordered_json;
  Json failures = Json::array();
  for (const auto& [status, failure] : outcome.failures)
    failures.push_back(
        {{"status", to_text(status)}, {"count", failure.count}, {"first", failure.first}});
  return {{"instances", outcome.instances},
          {"solved", outcome.solved},
          {"failures", outcome.instances - outcome.solved},
          {"failed", std::move(failures)},
          {"fell_back", outcome.fell_back},
          {"placing_s", static_cast<double>(outcome.placing.count()) / 1e9}};
}

int compete(const ArenaArguments& arguments) {
  if (arguments.hidden && arguments.update)
    throw InputError("--update-best: hidden instances have no file of best values");
  const std::string folder = fs::absolute(with_data_folder(arguments.folder)).string();
  const std::string known = folder + "/known.json";
  Arena arena = arguments.hidden ? Arena{} : Arena::read(known);
  if (arguments.placer.empty()) {
    if (arguments.hidden) arena.take(run_placers(arguments, folder));
    print_out(arguments.markdown ? ranking_markdown(arena.ranking(), arena.size())
                                 : ranking_text(arena.ranking(), arena.size(), ""));
    return 0;
  }
  const Results results = run_placers(arguments, folder);
  const ArenaOutcome outcome = outcome_of(results, arguments.placer);
  const std::vector<std::string> improved = arena.take(results);
  if (arguments.update) arena.write(known);
  const ArenaScore score = arena.score(arguments.placer);
  const std::vector<ArenaScore> ranking = arena.ranking();
  const auto place = std::ranges::find(ranking, arguments.placer, &ArenaScore::placer);
  const auto rank = static_cast<std::size_t>(place - ranking.begin()) + 1;
  if (arguments.json) {
    nlohmann::ordered_json others = nlohmann::ordered_json::array();
    for (const ArenaScore& s : ranking)
      others.push_back({{"name", s.placer}, {"score", score_json(s)}, {"solved", s.solved}});
    nlohmann::ordered_json json{{"placer", arguments.placer}, {"score", score_json(score)}};
    json.update(outcome_json(outcome));
    json.update({{"rank", rank}, {"improved", improved}, {"ranking", std::move(others)}});
    print_json(json);
    return 0;
  }
  std::string text = ranking_text(ranking, arena.size(), arguments.placer);
  text += fmt::format("{}: rank {} of {}, score {}, {} of {} solved, placed in {}\n",
                      arguments.placer, rank, ranking.size(), score_text(score), outcome.solved,
                      outcome.instances, to_text(outcome.placing));
  if (outcome.fell_back > 0)
    text +=
        fmt::format("{} {}: {} instances\n", arguments.placer, fallback_meaning, outcome.fell_back);
  text += failures_text(outcome);
  if (!improved.empty() && !arguments.hidden)
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
  verb->add_flag("--markdown", arguments->markdown, "Print the known placers as Markdown");
  verb->add_flag("--update-best", arguments->update,
                 "Put the placer's values, and best values that are better, into known.json");
  verb->add_option("--instances", arguments->folder,
                   "Folder with instances/*.yaml and known.json [the arena's]")
      ->type_name("DIR");
  verb->add_option("--hidden", arguments->hidden,
                   "Instead of the arena's instances, others that this seed draws; the quick "
                   "placers run beside yours")
      ->type_name("SEED")
      ->check(is_seed());
  verb->add_option("-o,--output", arguments->output,
                   "With --hidden: write the instances to FOLDER/instances")
      ->type_name("FOLDER");
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
      "  baechi arena --placer exec:./mine.py --json\n"
      "  baechi arena --placer exec:./mine.py --hidden 7");
  verb->callback([&chosen, arguments] { chosen = [arguments] { return compete(*arguments); }; });
}

}  // namespace baechi
