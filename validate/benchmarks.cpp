#include "validate/benchmarks.h"

namespace baechi::validate {
namespace {

replay::Timeline timeline_of(const Replay& replay) {
  replay::Timeline times;
  for (std::size_t i = 0; i < replay.start.size(); ++i)
    times.push_back({replay.start[i].count(), replay.end[i].count()});
  return times;
}

/// One run of a benchmark, as rows. None if it failed: that costs these samples, and no others.
void run_once(Executor& executor, const replay::Benchmark& benchmark, int round,
              std::vector<Measurement>& rows) {
  const Outcome outcome = executor.run(benchmark.plan);
  if (outcome.verdict != Verdict::ok) return;
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

}  // namespace

std::vector<Measurement> run_benchmarks(Executor& executor, int rounds, const Watch& watch) {
  const std::vector<replay::Benchmark> all =
      replay::benchmarks({.devices = static_cast<int>(executor.machine().partitions.size()),
                          .scale = executor.scale()});
  std::atomic<std::size_t> done = 0;
  const auto watched = begin_watch(watch, done, static_cast<std::size_t>(rounds));
  std::vector<Measurement> rows;
  for (int round = 0; round < rounds; ++round, ++done) {
    for (const replay::Benchmark& benchmark : all) run_once(executor, benchmark, round, rows);
    for (const std::int64_t budget : {std::int64_t{256} << 20, (std::int64_t{1002} << 20) - 1})
      rows.push_back({.what = "granule",
                      .args = std::to_string(budget),
                      .round = round,
                      .value = static_cast<double>(executor.usable({budget}).count)});
  }
  return rows;
}

}  // namespace baechi::validate
