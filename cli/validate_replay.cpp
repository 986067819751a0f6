#include <fmt/format.h>

#include <filesystem>
#include <memory>

#include "cli/arguments.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "sim/error.h"
#include "sim/file_aside.h"
#include "validate/virtual_clock.h"

namespace baechi {

using namespace validate;

namespace {

namespace fs = std::filesystem;

struct ReplayFlags {
  std::string run;
  int devices = 4;
  bool benchmarks = true;
  int replays = 30, rounds = 20, timelines = 3;
  double noise = 0.005, jitter_ns = 40, stretch = 1.0;
  std::uint64_t seed = 1;
};

/// Writes what was measured; without benchmarks those of before stay, with their machine.
void write_measured(const ReplayFlags& flags, const Machine& machine, const ValidationRun& run) {
  fs::create_directories(flags.run);
  if (flags.benchmarks) {
    write_aside(flags.run + "/machine.txt", machine_text(machine));
    write_aside(flags.run + "/measurements.csv", measurements_csv(run.measurements));
  }
  write_aside(flags.run + "/steps.csv", steps_csv(run.steps));
  write_aside(flags.run + "/timeline.csv", timeline_csv(run.timeline));
}

int replay_all(const ReplayFlags& flags) {
  std::vector<ReplayPlan> plans;
  int devices = flags.devices;
  if (fs::is_directory(flags.run + "/plans")) plans = read_plans(flags.run + "/plans");
  for (const ReplayPlan& plan : plans) devices = std::max(devices, plan.devices);
  if (!flags.benchmarks && !fs::exists(flags.run + "/machine.txt"))
    throw InputError(fmt::format("{}/machine.txt: --no-benchmarks needs it", flags.run));
  ValidationRun run;
  const ReplayChoice choice{.replays = flags.replays, .timelines = flags.timelines};
  const Unknowns measuring{.noise = flags.noise, .jitter_ns = flags.jitter_ns};
  VirtualClock clock(virtual_truth(devices), measuring, flags.seed);
  if (flags.benchmarks)
    run.measurements = run_benchmarks(clock, flags.rounds, stages("benchmarks"));
  clock.set({.noise = flags.noise, .jitter_ns = flags.jitter_ns, .stretch = flags.stretch});
  replay_plans(clock, plans, choice, run, stages("replays"));
  write_measured(flags, clock.machine(), run);
  fmt::print(stderr, "{}: {} plans on a virtual clock of {} devices\n", flags.run, plans.size(),
             devices);
  return 0;
}

}  // namespace

void add_validate_replay(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand("replay",
                                      "Run benchmarks and replays on a virtual clock, without a "
                                      "GPU; writes the files of a harness");
  const auto flags = std::make_shared<ReplayFlags>();
  add_argument(*verb, "RUN", flags->run, "Folder of the run");
  verb->add_flag("!--no-benchmarks", flags->benchmarks,
                 "Replay only; RUN's machine.txt and measurements.csv stay");
  add_number(*verb, "--devices", flags->devices, 1, 64,
             "Least number of devices; more if a plan has more [4]");
  add_number(*verb, "--replays", flags->replays, 1, 10000,
             "Replays of each plan in each of two rounds [30]");
  add_number(*verb, "--timelines", flags->timelines, 0, 10000,
             "Replays recorded task by task, of each plan in each round [3]");
  add_number(*verb, "--rounds", flags->rounds, 1, 10000, "Rounds of the benchmarks [20]");
  add_number(*verb, "--noise", flags->noise, 0.0, 0.5,
             "Relative deviation of each task's length [0.005]", "F");
  add_number(*verb, "--jitter-ns", flags->jitter_ns, 0.0, 1e6,
             "Deviation of the gaps, drawn for each replay, in ns [40]", "NS");
  add_number(*verb, "--stretch", flags->stretch, 0.5, 2.0,
             "Factor on lengths in replays, but not in benchmarks: an error for the report to "
             "find [1]",
             "F");
  verb->add_option("--seed", flags->seed, "Seed of the noise [1]")
      ->type_name("N")
      ->check(is_seed());
  verb->callback([flags, &chosen] { chosen = [flags] { return replay_all(*flags); }; });
}

}  // namespace baechi
