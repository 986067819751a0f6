#include <filesystem>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "placers/interface/registry.h"
#include "scenarios/arena/competition.h"
#include "scenarios/arena/duel.h"
#include "scenarios/read/paths.h"
#include "scenarios/report/html.h"
#include "sim/file_aside.h"

namespace baechi {
namespace {

struct DuelArguments {
  DuelNames names;
  std::string output, format;
};

std::unique_ptr<Placer> parse_placer(const std::string& text, const std::string& where) {
  Choice choice = parse_choice(text, where);
  return make_placer(choice.name, std::move(choice.options), choice.where);
}

int run_duel(const DuelArguments& a) {
  const std::unique_ptr<Placer> loser = parse_placer(a.names.loser, "A"),
                                winner = parse_placer(a.names.winner, "B");
  const Interrupt interrupt("taking the worst instance so far");
  DuelOptions options = a.names.options;
  options.stop = &interrupt.wanted();
  const DuelResult result = duel(*loser, *winner, options, stages("annealing instances"));
  const int code = interrupt.wanted() ? 130 : 0;
  if (code != 0 && result.found_ratio <= 0.0) return code;
  if (result.found_ratio <= 0.0)
    throw InputError(fmt::format("none of {} instances is solved by {}",
                                 a.names.options.evaluations, a.names.winner));
  const OpGraph graph = result.small.graph();
  const Cluster cluster = result.small.cluster();
  const ProfiledCosts costs(graph, cluster);
  const Problem problem{graph, cluster, costs};
  const auto steps = duel_steps(a.names, *loser, *winner, problem);
  if (!a.output.empty()) write_duel(a.output, a.names, result, problem, steps);
  if (a.format == "json") {
    const auto us = [](const DuelStep& step) {
      return step.why.empty() ? nlohmann::ordered_json(to_us(step.result.makespan))
                              : nlohmann::ordered_json();
    };
    print_json({{"ratio", result.small_ratio},
                {"found_ratio", result.found_ratio},
                {"evaluations", result.evaluations},
                {"ops", graph.num_ops()},
                {"edges", graph.num_edges()},
                {"devices", cluster.num_devices()},
                {"a", steps[0].placer},
                {"a_step_us", us(steps[0])},
                {"b", steps[1].placer},
                {"b_step_us", us(steps[1])}});
    return code;
  }
  print_out(
      fmt::format("{} {}\n{} {}\nratio {:.4f} on {} ops, {} edges and {} devices; {:.4f} on {} ops "
                  "before shrinking; {} evaluations\n",
                  a.names.loser, steps[0].text(), a.names.winner, steps[1].text(),
                  result.small_ratio, graph.num_ops(), graph.num_edges(), cluster.num_devices(),
                  result.found_ratio, result.found.ops.size(), result.evaluations));
  if (!a.output.empty())
    print_out(fmt::format(
        "wrote {0}/duel.yaml (baechi run {0}/duel.yaml), duel.trace.json, a.csv and b.csv\n",
        a.output));
  return code;
}

struct ArenaArguments {
  Competition competition{.placer = "", .folder = "scenarios/arena"};
  std::string format;
};

Cell score_cell(const ArenaScore& s) {
  return s.score ? Cell(*s.score, fmt::format("{:.4f}", *s.score))
                 : Cell(nlohmann::ordered_json(), "-");
}

Report ranking_report(const CompetitionResult& result, const std::string& placer) {
  Report report({{"name", "placer"},
                 {"", "rank"},
                 {"score", "score"},
                 {"solved", "solved"},
                 {"", "failures"}});
  std::size_t rank = 0;
  for (const ArenaScore& s : result.ranking)
    report.add({Cell(s.placer, s.placer == placer ? bold(s.placer) : s.placer), ++rank,
                score_cell(s), s.solved, result.instances - s.solved});
  return report;
}

std::string score_rule(const CompetitionResult& result) {
  return fmt::format(
      "score: geometric mean of step time / best known over {} instances, where failures count as "
      "{:g} and ratios are capped at it; placers with failures rank below the others\n",
      result.instances, failure_ratio);
}

std::string ranking_markdown(const CompetitionResult& result) {
  std::string text =
      fmt::format("| placer | score | solved of {} |\n| --- | ---: | ---: |\n", result.instances);
  for (const ArenaScore& s : result.ranking)
    text += fmt::format("| `{}` | {} | {} |\n", s.placer, score_cell(s).text, s.solved);
  return text;
}

Report failures_report(const ArenaOutcome& outcome) {
  Report report({{"status", ""}, {"count", ""}, {"first", ""}});
  for (const auto& [status, failure] : outcome.failures)
    report.add({to_text(status), failure.count, failure.first});
  return report;
}

/// If no placer competes, only the ranking of the known placers.
nlohmann::ordered_json result_json(const CompetitionResult& result, const std::string& placer) {
  if (result.rank == 0)
    return {{"instances", result.instances}, {"ranking", ranking_report(result, placer).json()}};
  const ArenaOutcome& outcome = result.outcome;
  return {{"placer", placer},
          {"score", score_cell(result.score()).value},
          {"instances", outcome.instances},
          {"solved", outcome.solved},
          {"failures", outcome.instances - outcome.solved},
          {"failed", failures_report(outcome).json()},
          {"fell_back", outcome.fell_back},
          {"placing_s", static_cast<double>(outcome.placing.count()) / 1e9},
          {"rank", result.rank},
          {"improved", result.improved},
          {"unguarded", result.unguarded},
          {"ranking", ranking_report(result, placer).json()}};
}

std::string result_text(const CompetitionResult& result, const Competition& competition) {
  const ArenaOutcome& outcome = result.outcome;
  std::string text = fmt::format("{}: rank {} of {}, score {}, {} of {} solved, placed in {}\n",
                                 competition.placer, result.rank, result.ranking.size(),
                                 score_cell(result.score()).text, outcome.solved, outcome.instances,
                                 to_text(outcome.placing));
  if (outcome.fell_back > 0)
    text += fmt::format("{} {}: {} instances\n", competition.placer, fallback_meaning,
                        outcome.fell_back);
  if (!result.unguarded.empty()) text += result.unguarded + "\n";
  for (const auto& [status, failure] : outcome.failures)
    text += fmt::format("{} {}, first: {}\n", failure.count, to_text(status), failure.first);
  if (!result.improved.empty())
    text += fmt::format("better than the best known on {} instances{}\n", result.improved.size(),
                        competition.update_best ? "" : " (--update-best saves them)");
  return text;
}

void write_page(const CompetitionResult& result, const Competition& competition) {
  ContestPage page{
      .title = "Arena",
      .first = fmt::format("Placers: {}. Instances: {}.", result.ranking.size(), result.instances),
      .contest = result.arena.contest()};
  if (result.rank > 0)
    page.first =
        fmt::format("{}: rank {} of {}, score {}, {} of {} instances solved.", competition.placer,
                    result.rank, result.ranking.size(), score_cell(result.score()).text,
                    result.score().solved, result.instances);
  page.ranking.header = {"placer", "rank", "score", "solved"};
  for (const ArenaScore& s : result.ranking)
    page.ranking.rows.push_back({s.placer, std::to_string(page.ranking.rows.size() + 1),
                                 score_cell(s).text, std::to_string(s.solved)});
  page.ranking.note = score_rule(result);
  for (const auto& [name, instance] : result.arena.instances()) page.points.push_back(name);
  std::filesystem::create_directories(competition.output);
  write_aside(competition.output + "/report.html", to_html(page));
  fmt::print(stderr, "{}/report.html\n", competition.output);
}

int compete_in_arena(ArenaArguments arguments) {
  Competition& competition = arguments.competition;
  competition.folder = with_data_folder(competition.folder);
  const Interrupt interrupt("finishing the runs that have begun");
  competition.stop = &interrupt.wanted();
  const CompetitionResult result =
      compete(competition, stages("making instances"),
              [&](const std::atomic<std::size_t>& done, std::size_t total) {
                return std::make_shared<Progress>(done, total, arguments.format == "json");
              });
  if (!competition.output.empty()) write_page(result, competition);
  if (arguments.format == "json")
    print_json(result_json(result, competition.placer));
  else if (arguments.format == "markdown")
    print_out(ranking_markdown(result));
  else
    print_out(ranking_report(result, competition.placer).table() + score_rule(result) +
              (result.rank > 0 ? result_text(result, competition) : ""));
  if (result.missing == 0) return 0;
  fmt::print(stderr, "interrupted: {} runs are missing; the figures are of the other instances{}\n",
             result.missing, competition.update_best ? "; known.json is unchanged" : "");
  return 130;
}

}  // namespace

void add_duel(CLI::App& app, Verb& chosen) {
  const auto [verb, arguments] = add_verb(
      app, chosen, "duel",
      "Find a small graph and cluster on which placer A is worst relative to placer B", run_duel);
  add_value(*verb, "A", arguments->names.loser, "PLACER",
            "The placer that loses, as in 'baechi place'")
      ->required();
  add_value(*verb, "B", arguments->names.winner, "PLACER", "The placer that wins")->required();
  add_number(*verb, "--evaluations", arguments->names.options.evaluations, std::size_t{8},
             std::size_t{100'000'000},
             "Instances to evaluate; shrinking the worst one takes more [1000]");
  add_value(*verb, "--seed", arguments->names.options.seed, "N", "Seed of the search [1]")
      ->check(is_seed());
  verb->add_flag("--failures", arguments->names.options.failures,
                 "Count a failure of A as 10 times the step time of B instead of ignoring it");
  add_value(*verb, "-o,--output", arguments->output, "FOLDER",
            "Write the instance, a scenario and both timelines to this folder");
  add_format(*verb, arguments->format, {"table", "json"});
  verb->footer(
      "Anneals graph, times, sizes, memory, link and devices, then shrinks the instance while the\n"
      "ratio holds.\n"
      "Example:\n"
      "  baechi arena duel m_etf heft --evaluations 2000 --seed 1 -o results/duel");
}

void add_arena(CLI::App& app, Verb& chosen) {
  const auto arguments = std::make_shared<ArenaArguments>();
  CLI::App* verb = app.add_subcommand("arena", "Run a placer on the arena's instances and rank it");
  add_value(*verb, "--placer", arguments->competition.placer, "NAME[:k=v,...]",
            "The placer, as in 'baechi place'; without it, the known placers are ranked");
  add_format(*verb, arguments->format, {"table", "json", "markdown"});
  verb->add_flag("--update-best", arguments->competition.update_best,
                 "Save the placer's values, and better best values, in known.json");
  add_value(*verb, "--instances", arguments->competition.folder, "DIR",
            "Folder with instances/*.yaml and known.json [scenarios/arena]");
  add_value(*verb, "--hidden", arguments->competition.hidden, "SEED",
            "Use random instances of this seed instead of the arena's; the quick placers run on "
            "them, too")
      ->check(is_seed());
  add_value(*verb, "-o,--out,--output", arguments->competition.output, "FOLDER",
            "Write the ranking and each instance to FOLDER/report.html; with --hidden also the "
            "instances to FOLDER/instances");
  add_number(*verb, "-j", arguments->competition.threads, 1, 1024, "Threads [1]");
  verb->footer(
      "An instance is a graph and a cluster with limited memory. Its best known value is the\n"
      "least step time of any placer so far, simulated with memory limits. An external program\n"
      "has the limits of 'exec' placers.\n"
      "Examples:\n"
      "  baechi arena\n"
      "  baechi arena --placer m_etf\n"
      "  baechi arena --placer exec:./mine.py --format json\n"
      "  baechi arena --placer exec:./mine.py --hidden 7\n"
      "  baechi arena duel m_etf heft");
  verb->require_subcommand(0, 1);
  add_duel(*verb, chosen);
  for (CLI::App* inner : verb->get_subcommands({})) inner->group("Verbs");
  verb->callback([&chosen, arguments, verb] {
    if (verb->get_subcommands().empty()) {
      chosen = [arguments] { return compete_in_arena(*arguments); };
      return;
    }
    for (const CLI::Option* option : verb->get_options())
      if (option->count() > 0)
        throw CLI::ValidationError(option->get_name(), "is no flag of 'arena duel'");
  });
}

}  // namespace baechi
