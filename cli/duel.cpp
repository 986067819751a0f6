#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/interrupt.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "placers/interface/registry.h"
#include "scenarios/arena/duel_files.h"
#include "sim/error.h"

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

}  // namespace

void add_duel(CLI::App& app, Verb& chosen) {
  const auto arguments = std::make_shared<DuelArguments>();
  CLI::App* verb = app.add_subcommand(
      "duel", "Find a small graph and cluster on which placer A is worst relative to placer B");
  verb->add_option("A", arguments->names.loser, "The placer that loses, as in 'baechi place'")
      ->required()
      ->type_name("PLACER");
  verb->add_option("B", arguments->names.winner, "The placer that wins")
      ->required()
      ->type_name("PLACER");
  add_number(*verb, "--evaluations", arguments->names.options.evaluations, std::size_t{8},
             std::size_t{100'000'000},
             "Instances to evaluate; shrinking the worst one takes more [1000]");
  verb->add_option("--seed", arguments->names.options.seed, "Seed of the search [1]")
      ->type_name("N")
      ->check(is_seed());
  verb->add_flag("--failures", arguments->names.options.failures,
                 "Count a failure of A as 10 times the step time of B instead of ignoring it");
  verb->add_option("-o,--output", arguments->output,
                   "Write the instance, a scenario and both timelines to this folder")
      ->type_name("FOLDER");
  add_format(*verb, arguments->format, {"table", "json"});
  verb->footer(
      "Anneals graph, times, sizes, memory, link and devices, then shrinks the instance while the\n"
      "ratio holds.\n"
      "Example:\n"
      "  baechi arena duel m_etf heft --evaluations 2000 --seed 1 -o results/duel");
  verb->callback([&chosen, arguments] { chosen = [arguments] { return run_duel(*arguments); }; });
}

}  // namespace baechi
