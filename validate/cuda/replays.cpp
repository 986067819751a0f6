#include "validate/cuda/replays.h"

#include <cstdio>
#include <memory>
#include <set>

#include "validate/cuda/measure.h"
#include "validate/cuda/run_folder.h"
#include "validate/cuda/step.h"

namespace baechi::validate::replay {

namespace {

struct Prepared {
  const ReplayPlan* plan = nullptr;
  std::unique_ptr<Step> step{};  ///< nullptr: given up
  int replays = 0;
  int strikes = 0;
};

/// After so many failures a plan is given up.
constexpr int most_strikes = 3;

/// What all machines of a run share.
struct Run {
  const ReplayOptions& options;
  Failures failures;
  TextFile steps;
  TextFile timelines;
  TextFile canaries;
  ClockRate clock;
  std::int64_t begin = host_ns(), flushed = begin;
  int told = 0;
  int failed = 0;

  explicit Run(const ReplayOptions& o)
      : options(o),
        failures(o.folder),
        steps(o.folder + "/steps.csv", steps_header(), o.more),
        timelines(o.folder + "/timeline.csv", timeline_header(), o.more),
        canaries(o.folder + "/canaries.csv", Measurement::header(), o.more) {}

  /// `share` of the time that there is, is gone.
  bool time_is_up(double share) const {
    return static_cast<double>(host_ns() - begin) / 1e9 > share * options.seconds;
  }

  void fail(const ReplayPlan& plan, int replay, int round, const std::string& why) {
    StepResult result;
    result.verdict = StepResult::Verdict::failed;
    steps.line(steps_line(plan, replay, round, result));
    ++failed;
    failures.add(plan.name, why);
  }

  void flush() {
    steps.flush();
    timelines.flush();
    canaries.flush();
    flushed = host_ns();
  }

  /// A killed process loses its last two seconds.
  void flush_now_and_then() {
    if (host_ns() - flushed > 2'000'000'000) flush();
  }
};

/// One replay. `round` < 0: warm-up.
void run_once(Run& run, Prepared& prepared, int round) {
  if (prepared.step == nullptr) return;
  StepResult result;
  try {
    result = prepared.step->run();
  } catch (const CudaError& error) {
    result.verdict = StepResult::Verdict::failed;
    result.why = error.what();
  }
  if (result.verdict == StepResult::Verdict::failed) {
    run.fail(*prepared.plan, prepared.replays, std::max(round, 0), result.why);
    if (++prepared.strikes == most_strikes) prepared.step.reset();
    return ensure_usable(prepared.plan->name);
  }
  if (round < 0) return;
  run.steps.line(steps_line(*prepared.plan, prepared.replays, round, result));
  if (prepared.replays < run.options.timelines && result.verdict == StepResult::Verdict::ok)
    write_timeline(run.timelines, *prepared.plan, prepared.replays, round, result.times);
  ++prepared.replays;
  ++run.told;
  run.flush_now_and_then();
}

/// A GEMM now and then: lost, it costs only what it would have told.
class Canary {
 public:
  Canary(Machine& machine, Run& run) : benchmark_(canary()), run_(run) {
    attempt([&] { step_ = std::make_unique<Step>(machine, benchmark_.plan); });
  }

  void sing(int block) {
    run_.clock.sample();
    if (step_ == nullptr) return;
    attempt([&] {
      const StepResult result = step_->run();
      if (result.verdict != StepResult::Verdict::ok) throw CudaError(cudaErrorUnknown, result.why);
      Measurement row = benchmark_.row;
      row.round = block;
      for (const double value : benchmark_.samples(result.times, 0, 0)) {
        row.value = value;
        run_.canaries.line(row.line());
      }
    });
  }

 private:
  void attempt(const auto& work) {
    try {
      work();
    } catch (const CudaError& error) {
      step_.reset();
      ++run_.failed;
      run_.failures.add("canary", error.what());
      ensure_usable("canary");
    }
  }

  Benchmark benchmark_;
  Run& run_;
  std::unique_ptr<Step> step_;
};

void replay_on(Machine& machine, Run& run, const std::vector<const ReplayPlan*>& plans) {
  write_machine(run.options.folder, machine, run.clock);
  const std::set<std::string> failed_before =
      run.options.more ? run.failures.told() : std::set<std::string>{};
  std::vector<Prepared> prepared;
  for (const ReplayPlan* plan : plans) {
    if (failed_before.contains(plan->name)) continue;
    prepared.push_back({.plan = plan});
    try {
      prepared.back().step = std::make_unique<Step>(machine, *plan);
    } catch (const std::runtime_error& error) {
      run.fail(*plan, 0, 0, error.what());
      ensure_usable(plan->name);
    }
  }
  Canary canary(machine, run);
  int pass = 0;
  const auto once_each = [&](int round) {
    const std::uint64_t seed = run.options.seed + static_cast<std::uint64_t>(pass);
    for (const std::size_t i : shuffled(prepared.size(), seed)) run_once(run, prepared[i], round);
    ++pass;
    run.flush();
  };
  for (int i = 0; i < run.options.warm_up && !run.time_is_up(0.2); ++i) once_each(-1);
  for (int round = 0; round < run.options.rounds; ++round) {
    const double share = (round + 1.0) / run.options.rounds;  // so that every round has replays
    for (int i = 0; i < run.options.repeats && !run.time_is_up(share); ++i) {
      canary.sing(pass);
      once_each(round);
    }
  }
  canary.sing(pass);
  write_machine(run.options.folder, machine, run.clock);
}

}  // namespace

int replay_plans(const std::vector<ReplayPlan>& plans, const ReplayOptions& options) {
  open_gpu();
  std::vector<const ReplayPlan*> all;
  for (const ReplayPlan& plan : plans) all.push_back(&plan);
  Run run(options);
  if (!all.empty()) {
    MachineOptions machine_options = machine_for(all, options.devices);
    machine_options.green_contexts = options.green_contexts;
    Machine machine(machine_options);
    if (options.green_contexts && !machine.disjoint())
      std::fprintf(stderr, "the devices' parts of the GPU overlap: machine.txt says so\n");
    replay_on(machine, run, all);
  }
  run.steps.finish();
  run.timelines.finish();
  run.canaries.finish();
  std::printf("%zu plans, %d replays, %d failed: %s\n", plans.size(), run.told, run.failed,
              options.folder.c_str());
  return run.failed == 0 ? 0 : 1;
}

}  // namespace baechi::validate::replay
