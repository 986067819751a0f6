#include "tests/validate/virtual_clock.h"

#include <filesystem>

#include "sim/file_aside.h"
#include "tests/validate/made_up_gpu.h"
#include "tests/validate/run_files_text.h"

namespace baechi::validate {
namespace {

replay::Timeline timeline_of(const Replay& replay) {
  replay::Timeline times;
  for (std::size_t i = 0; i < replay.start.size(); ++i)
    times.push_back({replay.start[i].count(), replay.end[i].count()});
  return times;
}

/// One run of a benchmark, as rows.
void run_once(VirtualClock& clock, const replay::Benchmark& benchmark, int round,
              std::vector<Measurement>& rows) {
  const Outcome outcome = clock.run(benchmark.plan);
  const auto tasks = static_cast<std::int64_t>(benchmark.plan.tasks.size());
  const std::int64_t submit = outcome.submit.count();
  const std::int64_t first = benchmark.plan.mode == SubmitMode::stream ? submit / tasks : 0;
  Measurement row = benchmark.row;
  row.round = round;
  for (const double value : benchmark.samples(timeline_of(outcome.replay), first, submit)) {
    row.value = value;
    rows.push_back(row);
  }
}

void replay_once(VirtualClock& clock, const ReplayPlan& plan, int round, int number,
                 const ReplayChoice& choice, ValidationRun& run) {
  const Outcome outcome = clock.run(plan);
  const int replay = round * choice.replays + number;
  StepRow row{.plan = plan.name,
              .replay = replay,
              .round = round,
              .mode = std::string(to_text(plan.mode)),
              .step = outcome.replay.step(),
              .submit = outcome.submit,
              .peaks = outcome.peaks};
  run.steps.push_back(std::move(row));
  if (number >= choice.timelines) return;
  TaskTimes times{.plan = plan.name,
                  .mode = std::string(to_text(plan.mode)),
                  .replay = replay,
                  .round = round,
                  .rows = {}};
  for (std::size_t i = 0; i < plan.tasks.size(); ++i)
    times.rows.push_back({static_cast<int>(i), outcome.replay.start[i], outcome.replay.end[i]});
  run.timeline.push_back(std::move(times));
}

FittedTime straight(made_up_gpu::Length length) {
  return {.fixed_ns = exactly(static_cast<double>(length.fixed_ns)),
          .ns_per_unit = exactly(1.0 / length.per_ns),
          .least = 0.0,
          .most = 1e15};
}

Calibration::Mode mode_of(const char* name, made_up_gpu::Gaps gaps) {
  return {name, exactly(static_cast<double>(gaps.same)), exactly(static_cast<double>(gaps.cross)),
          exactly(static_cast<double>(gaps.submit))};
}

}  // namespace

std::vector<Measurement> run_benchmarks(VirtualClock& clock, int rounds) {
  const std::vector<replay::Benchmark> all = replay::benchmarks(
      {.devices = static_cast<int>(clock.machine().partitions.size()), .scale = clock.scale()});
  std::vector<Measurement> rows;
  for (int round = 0; round < rounds; ++round)
    for (const replay::Benchmark& benchmark : all) run_once(clock, benchmark, round, rows);
  return rows;
}

void replay_plans(VirtualClock& clock, std::span<const ReplayPlan> plans, ReplayChoice choice,
                  ValidationRun& run) {
  for (int round = 0; round < 2; ++round)
    for (const ReplayPlan& plan : plans)
      for (int k = 0; k < choice.replays; ++k) replay_once(clock, plan, round, k, choice, run);
}

Calibration virtual_truth(int devices) {
  Calibration truth{.gpu = "virtual",
                    .driver = "none",
                    .cuda = "none",
                    .harness = "virtual clock",
                    .date = "2000-01-01",
                    .sms = made_up_gpu::multiprocessors,
                    .timer_tick_ns = made_up_gpu::timer_tick_ns};
  for (int d = 0; d < devices; ++d) truth.partitions.push_back({24, 8});
  truth.modes = {mode_of("graph", made_up_gpu::graph), mode_of("stream", made_up_gpu::stream)};
  for (const auto& mode : truth.modes) {
    const double hop = mode.cross_ns.value;
    truth.transfers.push_back({.mode = mode.mode,
                               .way = "link",
                               .direction = "",
                               .paced = true,
                               .latency_ns = exactly(2 * hop),
                               .occupancy_ns = mode.same_ns,
                               .time = straight({0, made_up_gpu::link_bytes_per_ns})});
    for (const char* direction : {"d2h", "h2d"})
      truth.transfers.push_back({.mode = mode.mode,
                                 .way = "host",
                                 .direction = direction,
                                 .latency_ns = exactly(2 * hop + made_up_gpu::host_copy.fixed_ns),
                                 .occupancy_ns = exactly(2600),
                                 .time = straight({0, made_up_gpu::host_copy.per_ns}),
                                 .shared = true,
                                 .channel_ns = exactly(2600),
                                 .contention = static_cast<double>(devices)});
  }
  truth.ops = {{.kind = "gemm", .time = straight(made_up_gpu::gemm)},
               {.kind = "ew", .time = straight(made_up_gpu::ew)}};
  truth.interference = {{"ew", "ew", exactly(0.08)},
                        {"ew", "gemm", exactly(0.03)},
                        {"gemm", "ew", exactly(0.02)},
                        {"gemm", "gemm", exactly(0.01)}};
  return truth;
}

Machine VirtualClock::machine() const {
  return {.gpu = truth_.gpu,
          .driver = truth_.driver,
          .cuda = truth_.cuda,
          .harness = truth_.harness,
          .date = truth_.date,
          .sms = truth_.sms,
          .partitions = truth_.partitions,
          .disjoint = "yes",
          .timer_tick_ns = truth_.timer_tick_ns};
}

BenchmarkScale VirtualClock::scale() const {
  const std::vector<Body> both{{.kind = BodyKind::gemm, .args = {1024}},
                               {.kind = BodyKind::ew, .args = {64 << 20}}};
  BenchmarkScale scale{.ops = {}, .in_chains = both, .subjects = both, .neighbours = both};
  for (const std::int64_t n : {128, 256, 512, 768, 1024, 2048})
    scale.ops.push_back({.kind = BodyKind::gemm, .args = {n}});
  for (std::int64_t bytes = 64 << 10; bytes <= 256 << 20; bytes *= 4)
    scale.ops.push_back({.kind = BodyKind::ew, .args = {bytes}});
  return scale;
}

Outcome VirtualClock::run(const ReplayPlan& plan) {
  Timing timing = timing_of(plan, &truth_, {});
  const auto jittered = [&](Duration gap) {
    if (gap == Duration::zero()) return gap;
    return std::max(gap + Duration{std::llround(unknowns_.jitter_ns * random_.gauss())},
                    Duration::zero());
  };
  timing.same_gap = jittered(timing.same_gap);
  timing.cross_gap = jittered(timing.cross_gap);
  for (Duration& gap : timing.gap_after) gap = jittered(gap);
  for (Timing::Transfer& t : timing.transfers) {
    t.latency = jittered(t.latency);
    t.occupancy = jittered(t.occupancy);
  }
  for (Duration& length : timing.length) {
    const double factor = unknowns_.stretch * (1.0 + unknowns_.noise * random_.gauss());
    length = Duration{std::llround(static_cast<double>(length.count()) * std::max(factor, 0.0))};
  }
  Outcome outcome{.replay = predict(plan, timing)};
  outcome.peaks = peaks(plan, outcome.replay);
  const Calibration::Mode* mode =
      truth_.find_mode(plan.mode == SubmitMode::graph ? "graph" : "stream");
  outcome.submit = Duration{std::llround(
      mode->submit_ns.value *
      (plan.mode == SubmitMode::graph ? 1.0 : static_cast<double>(plan.tasks.size())))};
  const auto tick = static_cast<std::int64_t>(std::max(truth_.timer_tick_ns, 1.0));
  for (auto* stamps : {&outcome.replay.start, &outcome.replay.end})
    for (Duration& at : *stamps) at = Duration{at.count() / tick * tick};
  return outcome;
}

void write_run(const std::string& folder, const VirtualClock& clock, const ValidationRun& run) {
  write_aside(folder + "/machine.txt", machine_text(clock.machine()));
  write_aside(folder + "/measurements.csv", measurements_csv(run.measurements));
  write_aside(folder + "/steps.csv", steps_csv(run.steps));
  write_aside(folder + "/timeline.csv", timeline_csv(run.timeline));
}

void replay_virtually(const std::string& folder) {
  VirtualClock clock(virtual_truth(4), {.noise = 0.005, .jitter_ns = 40}, 1);
  ValidationRun run;
  run.measurements = run_benchmarks(clock, 3);
  replay_plans(clock, read_plans(folder + "/plans"), {.replays = 3}, run);
  write_run(folder, clock, run);
}

}  // namespace baechi::validate
