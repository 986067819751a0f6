#include "scenarios/arena/duel.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "placers/files/placement_file.h"
#include "placers/interface/registry.h"
#include "sim/engine/simulation.h"
#include "sim/error.h"
#include "sim/file_aside.h"
#include "sim/report/svg.h"
#include "traces/format/trace_file.h"

namespace baechi {
namespace {

namespace fs = std::filesystem;

struct DuelArguments {
  std::string loser, winner, output, format;
  DuelOptions options;
};

/// A placer's answer on the instance, simulated.
struct Step {
  std::string placer;
  std::optional<Placement> placement{};
  Timeline timeline{};
  StepResult result{};
  std::string why{};  ///< if there is no step
};

Step step_of(const Problem& problem, const std::string& name, const Placer& placer) {
  Step step{.placer = name};
  try {
    step.placement = placer.place(problem, 1);
    std::vector<StepObserver*> observers{&step.timeline};
    step.result = simulate(problem, *step.placement, observers);
    if (step.result.oom) step.why = "out of memory";
  } catch (const InfeasibleError& e) {
    step.why = e.what();
  }
  return step;
}

std::string scenario_text(const DuelArguments& a, const DuelInstance& instance,
                          const DuelResult& result) {
  std::string text = fmt::format(
      "# {} takes {:.4f} x the step of {} here. Found by\n# baechi duel {} {} --evaluations {} "
      "--seed {}{}\n"
      "name: duel\ngraph: {{import: duel.trace.json}}\ncluster:\n  devices:\n",
      a.loser, result.small_ratio, a.winner, a.loser, a.winner, a.options.evaluations,
      a.options.seed, a.options.failures ? " --failures" : "");
  for (const double speed : instance.speed)
    text += fmt::format("    - {{memory: {} B, speed: {}}}\n", instance.memory.count, speed);
  text += fmt::format("  link: {{bandwidth: {} B/s, latency: {} ns}}\nplacers:\n",
                      static_cast<std::int64_t>(instance.link.bandwidth.bytes_per_second),
                      instance.link.latency.count());
  for (const std::string& placer : {a.loser, a.winner}) {
    const Choice choice = parse_choice(placer, "placer");
    const std::size_t colon =
        placer.find(':', choice.name.size() > 5 && placer.starts_with("exec:") ? 5 : 0);
    if (placer.starts_with("exec:"))
      text += fmt::format("  - {{exec: {{path: '{}'}}}}\n",
                          fs::absolute(choice.name.substr(5)).string());
    else if (colon == std::string::npos)
      text += fmt::format("  - {}\n", placer);
    else
      text += fmt::format("  - '{}'\n", placer);
  }
  return text + "seeds: [1]\n";
}

std::string value_text(const Step& step) {
  return step.why.empty() ? to_text(step.result.makespan) : step.why;
}

void write_files(const DuelArguments& a, const DuelResult& result, const Problem& problem,
                 std::span<const Step> steps) {
  fs::create_directories(a.output);
  const auto file = [&](std::string_view name) { return fmt::format("{}/{}", a.output, name); };
  write_trace({.graph = problem.graph,
               .name = "duel",
               .source = fmt::format("baechi duel {} {}", a.loser, a.winner)},
              file("duel.trace.json"));
  write_aside(file("duel.yaml"), scenario_text(a, result.small, result));
  Duration longest{1};
  for (const Step& step : steps) longest = std::max(longest, step.result.makespan);
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (!steps[i].placement) continue;
    const char* role = i == 0 ? "a" : "b";
    write_aside(file(fmt::format("{}.svg", role)),
                step_svg(problem, steps[i].timeline,
                         fmt::format("{}: {}", steps[i].placer, value_text(steps[i])), longest));
    write_placement(file(fmt::format("{}.placement.json", role)), *steps[i].placement,
                    problem.graph, "duel", problem.cluster.num_devices());
  }
}

int fight(const DuelArguments& a) {
  const auto made = [](const std::string& text, const std::string& where) {
    Choice choice = parse_choice(text, where);
    return make_placer(choice.name, std::move(choice.options), choice.where);
  };
  const std::unique_ptr<Placer> loser = made(a.loser, "A"), winner = made(a.winner, "B");
  DuelResult result;
  {
    const Stage stage("annealing instances");
    result = duel(*loser, *winner, a.options);
  }
  if (result.found_ratio <= 0.0)
    throw InputError(
        fmt::format("no instance of {} was found that {} solves", a.options.evaluations, a.winner));
  const OpGraph graph = result.small.graph();
  const Cluster cluster = result.small.cluster();
  const ProfiledCosts costs(graph, cluster);
  const Problem problem{graph, cluster, costs};
  const std::array steps{step_of(problem, a.loser, *loser), step_of(problem, a.winner, *winner)};
  if (!a.output.empty()) write_files(a, result, problem, steps);
  if (a.format == "json") {
    nlohmann::ordered_json json{
        {"ratio", result.small_ratio},       {"found_ratio", result.found_ratio},
        {"evaluations", result.evaluations}, {"ops", graph.num_ops()},
        {"edges", graph.num_edges()},        {"devices", cluster.num_devices()}};
    for (std::size_t i = 0; i < steps.size(); ++i) {
      const std::string role = i == 0 ? "a" : "b";
      json[role] = steps[i].placer;
      json[role + "_step_us"] = steps[i].why.empty()
                                    ? nlohmann::ordered_json(to_us(steps[i].result.makespan))
                                    : nlohmann::ordered_json();
    }
    print_json(json);
    return 0;
  }
  print_out(fmt::format(
      "{} {}\n{} {}\nratio {:.4f} on {} ops, {} edges and {} devices; {:.4f} on {} ops before it "
      "was made small; {} evaluations\n",
      a.loser, value_text(steps[0]), a.winner, value_text(steps[1]), result.small_ratio,
      graph.num_ops(), graph.num_edges(), cluster.num_devices(), result.found_ratio,
      result.found.ops.size(), result.evaluations));
  if (!a.output.empty())
    print_out(
        fmt::format("wrote {0}/duel.yaml (baechi run {0}/duel.yaml), duel.trace.json, "
                    "a.svg and b.svg\n",
                    a.output));
  return 0;
}

}  // namespace

void add_duel(CLI::App& app, Verb& chosen) {
  const auto arguments = std::make_shared<DuelArguments>();
  CLI::App* verb = app.add_subcommand(
      "duel", "Find a small graph and cluster on which placer A loses most to placer B");
  verb->add_option("A", arguments->loser, "The placer that is to lose, as in 'baechi place'")
      ->required()
      ->type_name("PLACER");
  verb->add_option("B", arguments->winner, "The placer that is to win")
      ->required()
      ->type_name("PLACER");
  verb->add_option("--evaluations", arguments->options.evaluations,
                   "Instances that both place; making the worst one small takes more [1000]")
      ->type_name("N")
      ->check(CLI::Range(std::size_t{8}, std::size_t{100'000'000}));
  verb->add_option("--seed", arguments->options.seed, "Another seed, another instance [1]")
      ->type_name("N")
      ->check(is_seed());
  verb->add_flag("--failures", arguments->options.failures,
                 "A failure of A counts as a step 10 times as long as B's; else it does not count");
  verb->add_option("-o,--output", arguments->output,
                   "Write the instance, a scenario and both timelines there")
      ->type_name("FOLDER");
  add_format(*verb, arguments->format, {"table", "json"});
  verb->footer(
      "Anneals graph, times, sizes, memory, link and devices, then removes what the loss does not "
      "need.\n"
      "Example:\n"
      "  baechi duel m_etf heft --evaluations 2000 --seed 1 -o results/duel");
  verb->callback([&chosen, arguments] { chosen = [arguments] { return fight(*arguments); }; });
}

}  // namespace baechi
