#include "validate/cuda/replays.h"

#include <cstdio>
#include <memory>

#include "validate/cuda/measure.h"
#include "validate/cuda/run_folder.h"
#include "validate/cuda/step.h"

namespace baechi::validate::replay {

namespace {

struct Prepared {
  const ReplayPlan* plan = nullptr;
  std::unique_ptr<Step> step{};  ///< nullptr: failed
  int replays = 0;
};

/// A verdict on memory needs no interval, and each replay maps its budgets anew.
constexpr int most_live_replays = 5;

/// What all machines of a run share.
struct Run {
  const ReplayOptions& options;
  TextFile steps;
  TextFile timelines;
  TextFile measurements;
  ClockRate clock;
  std::int64_t begin = host_ns();
  int told = 0;
  int failed = 0;

  explicit Run(const ReplayOptions& o)
      : options(o),
        steps(o.folder + "/steps.csv", steps_header()),
        timelines(o.folder + "/timeline.csv", timeline_header()),
        measurements(o.folder + "/measurements.csv", Measurement::header(), true) {}

  /// `share` of the time that there is, is gone.
  bool time_is_up(double share) const {
    return static_cast<double>(host_ns() - begin) / 1e9 > share * options.seconds;
  }

  void fail(const ReplayPlan& plan, int replay, int round, const std::string& why) {
    std::fprintf(stderr, "failed: %s: %s\n", plan.name.c_str(), why.c_str());
    StepResult result;
    result.verdict = StepResult::Verdict::failed;
    steps.line(steps_line(plan, replay, round, result));
    ++failed;
  }
};

/// One replay. `round` < 0: warm-up. A plan that failed is not run again.
void run_once(Run& run, Prepared& prepared, int round) {
  if (prepared.step == nullptr) return;
  if (prepared.plan->live_memory && prepared.replays >= most_live_replays) return;
  StepResult result;
  try {
    result = prepared.step->run();
  } catch (const CudaError& error) {
    run.fail(*prepared.plan, prepared.replays, std::max(round, 0), error.what());
    prepared.step.reset();
    REPLAY_CUDA(cudaDeviceSynchronize());  // throws if the GPU is beyond use
    return;
  }
  if (result.verdict == StepResult::Verdict::failed) {
    run.fail(*prepared.plan, prepared.replays, std::max(round, 0), result.why);
    prepared.step.reset();
    return;
  }
  if (round < 0) return;
  run.steps.line(steps_line(*prepared.plan, prepared.replays, round, result));
  if (prepared.replays < run.options.timelines && result.verdict == StepResult::Verdict::ok)
    write_timeline(run.timelines, *prepared.plan, prepared.replays, round, result.times);
  ++prepared.replays;
  ++run.told;
}

void watch_clock(Run& run, Step* canary, const Benchmark& benchmark, int block) {
  run.clock.sample();
  if (canary == nullptr) return;
  const StepResult result = canary->run();
  Measurement row = benchmark.row;
  row.round = block;
  for (const double value : benchmark.samples(result.times, 0, 0)) {
    row.value = value;
    run.measurements.line(row.line());
  }
}

void replay_on(Machine& machine, Run& run, const std::vector<const ReplayPlan*>& plans) {
  std::vector<Prepared> prepared;
  for (const ReplayPlan* plan : plans) {
    prepared.push_back({.plan = plan});
    try {
      prepared.back().step = std::make_unique<Step>(machine, *plan);
    } catch (const std::runtime_error& error) {
      run.fail(*plan, 0, 0, error.what());
    }
  }
  const Benchmark benchmark = canary();
  Step canary_step(machine, benchmark.plan);
  int pass = 0;
  const auto once_each = [&](int round) {
    const std::uint64_t seed = run.options.seed + static_cast<std::uint64_t>(pass);
    for (const std::size_t i : shuffled(prepared.size(), seed)) run_once(run, prepared[i], round);
    ++pass;
  };
  for (int i = 0; i < run.options.warm_up && !run.time_is_up(0.2); ++i) once_each(-1);
  for (int round = 0; round < run.options.rounds; ++round) {
    const double share = (round + 1.0) / run.options.rounds;  // so that every round has replays
    for (int i = 0; i < run.options.repeats && !run.time_is_up(share); ++i) {
      watch_clock(run, &canary_step, benchmark, pass);
      once_each(round);
    }
  }
  watch_clock(run, &canary_step, benchmark, pass);
}

}  // namespace

int replay_plans(const std::vector<ReplayPlan>& plans, const ReplayOptions& options) {
  open_gpus();
  std::vector<const ReplayPlan*> on_parts;
  std::vector<const ReplayPlan*> on_gpus;
  for (const ReplayPlan& plan : plans)
    (plan.way == Way::peer ? on_gpus : on_parts).push_back(&plan);
  make_folder(options.folder);
  Run run(options);
  if (!on_parts.empty()) {
    MachineOptions machine_options = machine_for(on_parts, options.devices);
    machine_options.green_contexts = options.green_contexts;
    Machine machine(machine_options);
    if (options.green_contexts && !machine.disjoint())
      throw CudaError(cudaErrorUnknown, "the devices' parts of the GPU overlap");
    replay_on(machine, run, on_parts);
    write_machine(options.folder, machine, run.clock);
  }
  if (!on_gpus.empty()) {
    try {
      MachineOptions machine_options = machine_for(on_gpus, 1);
      machine_options.gpu_per_device = true;
      Machine machine(machine_options);
      replay_on(machine, run, on_gpus);
      if (on_parts.empty()) write_machine(options.folder, machine, run.clock);
    } catch (const Skip& reason) {
      for (const ReplayPlan* plan : on_gpus) run.fail(*plan, 0, 0, reason.what());
    }
  }
  run.steps.finish();
  run.timelines.finish();
  run.measurements.finish();
  std::printf("%zu plans, %d replays, %d failed: %s\n", plans.size(), run.told, run.failed,
              options.folder.c_str());
  return run.failed == 0 ? 0 : 1;
}

}  // namespace baechi::validate::replay
