#include "scenarios/arena/duel_files.h"

#include <filesystem>

#include "placers/files/placement_file.h"
#include "scenarios/read/choice_text.h"
#include "scenarios/report/plots.h"
#include "sim/file_aside.h"
#include "traces/format/trace_file.h"

namespace baechi {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view program = "exec:";

DuelStep duel_step(const Problem& problem, const std::string& name, const Placer& placer) {
  DuelStep step{.placer = name};
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

/// An entry of a scenario's list `placers`.
std::string placer_line(const std::string& text) {
  if (text.starts_with(program)) {
    const Choice choice = parse_choice(text, "placer");
    return fmt::format("  - {{exec: {{path: '{}'}}}}\n",
                       fs::absolute(choice.name.substr(program.size())).string());
  }
  const char* quote = text.find(':') == std::string::npos ? "" : "'";
  return fmt::format("  - {0}{1}{0}\n", quote, text);
}

std::string duel_scenario(const DuelNames& names, const DuelInstance& instance, double ratio) {
  std::string text = fmt::format(
      "# {0} takes {2:.4f} x the step of {1} here. Found by\n# baechi arena duel {0} {1} "
      "--evaluations {3} --seed {4}{5}\n"
      "name: duel\ngraph: {{import: duel.trace.json}}\ncluster:\n  devices:\n",
      names.loser, names.winner, ratio, names.options.evaluations, names.options.seed,
      names.options.failures ? " --failures" : "");
  for (const double speed : instance.speed)
    text += fmt::format("    - {{memory: {} B, speed: {}}}\n", instance.memory.count, speed);
  text += fmt::format("  link: {{bandwidth: {} B/s, latency: {} ns}}\nplacers:\n",
                      static_cast<std::int64_t>(instance.link.bandwidth.bytes_per_second),
                      instance.link.latency.count());
  return text + placer_line(names.loser) + placer_line(names.winner) + "seeds: [1]\n";
}

}  // namespace

std::string DuelStep::text() const { return why.empty() ? to_text(result.makespan) : why; }

std::array<DuelStep, 2> duel_steps(const DuelNames& names, const Placer& loser,
                                   const Placer& winner, const Problem& problem) {
  return {duel_step(problem, names.loser, loser), duel_step(problem, names.winner, winner)};
}

void write_duel(const std::string& folder, const DuelNames& names, const DuelResult& result,
                const Problem& problem, const std::array<DuelStep, 2>& steps) {
  fs::create_directories(folder);
  const auto file = [&](std::string_view name) { return fmt::format("{}/{}", folder, name); };
  write_trace({.graph = problem.graph,
               .name = "duel",
               .source = fmt::format("baechi arena duel {} {}", names.loser, names.winner)},
              file("duel.trace.json"));
  write_aside(file("duel.yaml"), duel_scenario(names, result.small, result.small_ratio));
  for (std::size_t i = 0; i < steps.size(); ++i) {
    const DuelStep& step = steps[i];
    if (!step.placement) continue;
    const char* role = i == 0 ? "a" : "b";
    write_aside(file(fmt::format("{}.csv", role)),
                step_csv(picture(problem, step.timeline, step.result)));
    write_placement(file(fmt::format("{}.placement.json", role)), *step.placement, problem.graph,
                    "duel", problem.cluster.num_devices());
  }
}

}  // namespace baechi
