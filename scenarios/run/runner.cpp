#include "scenarios/run/runner.h"

#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <exception>
#include <mutex>
#include <numeric>
#include <sstream>

#include "sim/processor_time.h"

namespace baechi {

void for_each_in_parallel(std::size_t count, std::size_t threads, const std::atomic<bool>* stop,
                          const std::function<void(std::size_t)>& work) {
  const std::size_t workers = std::max<std::size_t>(1, std::min(threads, count));
  std::atomic<std::size_t> next{0};
  const auto take_turns = [&](std::size_t) {
    while (stop == nullptr || !stop->load(std::memory_order_relaxed)) {
      const std::size_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= count) return;
      work(i);
    }
  };
  if (workers == 1) return take_turns(0);
  // As many threads as requested, also if the machine has fewer cores.
  const oneapi::tbb::global_control limit(oneapi::tbb::global_control::max_allowed_parallelism,
                                          workers);
  oneapi::tbb::task_arena arena(static_cast<int>(workers));
  arena.execute([&] {
    oneapi::tbb::parallel_for(std::size_t{0}, workers, take_turns,
                              oneapi::tbb::simple_partitioner());
  });
}

namespace {

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ';');
  return text;
}

std::string bytes_of(const Placement& placement, std::size_t num_devices) {
  std::string bytes;
  bytes.reserve(placement.device.size() * (num_devices > 256 ? 2 : 1));
  for (const DeviceId d : placement.device) {
    bytes += static_cast<char>(index(d) & 0xffU);
    if (num_devices > 256) bytes += static_cast<char>(index(d) >> 8U);
  }
  return bytes;
}

void measure_into(RunResult& row, const Measure& measure, const ExperimentStep& step) {
  Measured found = measure.of(step.problem(), step.placement());
  row.status = found.value ? Status::ok : found.out_of_memory ? Status::oom : Status::infeasible;
  if (!found.value) row.detail = one_line(std::move(found.why));
  row.value = found.value;
  row.peak = found.peak();
  row.at_peak = found.at_peak;
  row.moved = found.moved;
  row.device_peaks = std::move(found.peaks);
  if (found.value && !found.busy.empty())
    row.utilisation = utilisation(step.problem(), step.placement(), step.device_models(),
                                  *found.value, found.busy)
                          .step;
}

PlacerAnswer run_placer(const Run& run, const Experiment& experiment) {
  PlacerAnswer answer;
  const auto start = std::chrono::steady_clock::now();
  ProcessorTime processor;
  try {
    const TaskPart placing(&processor);
    answer.placement = experiment.place(*run.placer.placer, run.seed);
  } catch (const InfeasibleError& e) {
    answer.why = one_line(e.what());
  } catch (const std::exception& e) {
    answer.failure = Status::error;
    answer.why = one_line(e.what());
  }
  std::chrono::nanoseconds took = std::chrono::steady_clock::now() - start;
  if (answer.placement && answer.placement->own_placing) took = *answer.placement->own_placing;
  answer.took = experiment.graph().transforming + took;
  answer.processor = experiment.graph().transforming_processor + processor.used();
  return answer;
}

IdVector<OpId, DeviceId> devices_from(const std::string& bytes, std::size_t num_devices) {
  const std::size_t width = num_devices > 256 ? 2 : 1;
  IdVector<OpId, DeviceId> devices;
  devices.reserve(bytes.size() / width);
  for (std::size_t i = 0; i < bytes.size(); i += width) {
    std::uint32_t d = static_cast<unsigned char>(bytes[i]);
    if (width == 2) d += static_cast<unsigned char>(bytes[i + 1]) * 256U;
    devices.push_back(DeviceId{d});
  }
  return devices;
}

/// Finished rows that are passed to `take` together.
class Batch {
 public:
  Batch(std::mutex& mutex, const TakeRows& take) : mutex_(mutex), take_(take) {}
  void add(RunResult row) {
    rows_.push_back(std::move(row));
    if (rows_.size() >= most || Clock::now() - since_ >= longest) give();
  }
  void give() {
    if (!rows_.empty()) {
      const std::lock_guard lock(mutex_);
      take_(rows_);
    }
    rows_.clear();
    since_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t most = 64;
  static constexpr std::chrono::milliseconds longest{100};
  std::mutex& mutex_;
  const TakeRows& take_;
  std::vector<RunResult> rows_;
  Clock::time_point since_ = Clock::now();
};

}  // namespace

std::vector<ReplayedRun> runs_again(const std::string& folder, std::span<const std::string> ids) {
  const Results results = read_results(folder);
  const Sweep sweep = sweep_again(results);
  std::vector<ReplayedRun> runs;
  for (const std::string& id : ids) {
    const auto number = parse_number<std::size_t>(id);
    const auto row = std::ranges::find(results.rows, number, &RunResult::id);
    if (!number || row == results.rows.end())
      throw InputError(
          fmt::format("--run: '{}' is not one of the {} runs of {} (column id of results.csv)", id,
                      results.rows.size(), folder));
    runs.push_back({fmt::format("run {}, {}", id, row->placer),
                    sweep.experiment(sweep.run(row->id)), step_of(sweep, *row)});
  }
  return runs;
}

RunResult run_one(const Sweep& sweep, std::size_t id) {
  const Run run = sweep.run(id);
  const Experiment experiment = sweep.experiment(run);
  RunResult row = sweep.row(run);
  const Measure& measure = *run.measure.measure;
  row.lower_bound = measure.bound(sweep.lower_bounds(run));

  const auto answer = sweep.answer(run, [&] { return run_placer(run, experiment); });
  row.placing = answer->took;
  row.placing_processor = answer->processor;
  if (!answer->placement) {
    row.status = answer->failure;
    row.detail = answer->why;
    return row;
  }
  const Placement& placement = *answer->placement;
  row.detail = one_line(placement.detail);
  row.placed_by = placement.placed_by.empty() ? run.placer.name : placement.placed_by;
  row.facts = placement.facts;
  row.facts["placed_ops"] = static_cast<double>(experiment.graph().placed->num_ops());
  if (run.file.report.placements) row.placement = bytes_of(placement, row.devices);
  try {
    const ExperimentStep step = experiment.step(placement);
    const Problem problem = step.problem();
    if (step.is_rewritten())
      row.lower_bound = measure.bound(lower_bounds(problem.graph, problem.cluster, problem.costs));
    measure_into(row, measure, step);
  } catch (const InfeasibleError& e) {
    row.status = Status::infeasible;
    row.detail = one_line(e.what());
  } catch (const std::exception& e) {
    row.status = Status::error;
    row.detail = one_line(e.what());
  }
  return row;
}

Sweep sweep_again(const Results& results) {
  Mistakes mistakes;
  std::vector<ScenarioFile> files;
  for (const ScenarioRecord& record : results.scenarios) {
    std::vector<std::string> sets;
    std::istringstream lines(record.sets);
    for (std::string line; std::getline(lines, line);) sets.push_back(line);
    files.push_back(parse_scenario(record.text, record.path, sets, mistakes));
  }
  Sweep sweep = make_sweep(std::move(files), 1, mistakes);
  mistakes.throw_if_any();
  if (sweep.header().hash != results.hash)
    throw InputError(
        "the results are of other runs than their scenarios make now: a file that they name, the "
        "working directory or the program has changed");
  return sweep;
}

ExperimentStep step_of(const Sweep& sweep, const RunResult& row) {
  const Run run = sweep.run(row.id);
  const Experiment experiment = sweep.experiment(run);
  const Problem step = experiment.problem();
  Placement placement;
  if (step.engine.queue == ReadyOrder::fifo)
    placement.device = devices_from(row.placement, step.cluster.num_devices());
  if (placement.device.size() != step.graph.num_ops())
    placement = experiment.place(*run.placer.placer, run.seed);
  return experiment.step(std::move(placement));
}

std::vector<std::size_t> all_runs(const Sweep& sweep) { return shard_runs(sweep, 1, 1); }

std::vector<std::size_t> shard_runs(const Sweep& sweep, std::size_t shard, std::size_t shards) {
  std::vector<std::size_t> points(sweep.num_points());
  std::iota(points.begin(), points.end(), 0U);
  if (shards > 1) {
    std::vector<std::uint64_t> keys;  // [points]: the key of the first run
    keys.reserve(points.size());
    for (const std::size_t p : points) keys.push_back(sweep.key(sweep.run(sweep.runs_of(p).begin)));
    std::ranges::stable_sort(points, {}, [&](std::size_t p) { return keys[p]; });
    std::vector<std::size_t> chosen;
    for (std::size_t i = shard - 1; i < points.size(); i += shards) chosen.push_back(points[i]);
    std::ranges::sort(chosen);
    points = std::move(chosen);
  }
  std::vector<std::size_t> ids;
  for (const std::size_t p : points) {
    const Sweep::Ids runs = sweep.runs_of(p);
    for (std::size_t id = runs.begin; id < runs.end; ++id) ids.push_back(id);
  }
  return ids;
}

void run_each(const Sweep& sweep, std::size_t threads, const NextRun& next, const TakeRows& take) {
  std::mutex mutex;
  std::atomic<bool> failed{false};
  std::exception_ptr failure;
  for_each_in_parallel(threads, threads, nullptr, [&](std::size_t) {
    try {
      Batch batch(mutex, take);
      while (!failed.load(std::memory_order_relaxed)) {
        const std::optional<std::size_t> id = next();
        if (!id) break;
        batch.add(run_one(sweep, *id));
      }
      batch.give();
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
}

NextRun each_of(std::span<const std::size_t> ids, std::atomic<std::size_t>& begun,
                const std::atomic<bool>* stop) {
  return [ids, &begun, stop]() -> std::optional<std::size_t> {
    if (stop != nullptr && stop->load(std::memory_order_relaxed)) return std::nullopt;
    const std::size_t i = begun.fetch_add(1, std::memory_order_relaxed);
    if (i >= ids.size()) return std::nullopt;
    return ids[i];
  };
}

Results run(const Sweep& sweep, std::span<const std::size_t> ids, const RunSettings& settings) {
  Results results{sweep.header(), {}};
  std::atomic<std::size_t> begun{0};
  const std::size_t threads = std::clamp<std::size_t>(ids.size(), 1, settings.threads);
  run_each(sweep, threads, each_of(ids, begun, settings.stop),
           [&](std::span<const RunResult> rows) {
             results.rows.insert(results.rows.end(), rows.begin(), rows.end());
             if (settings.done != nullptr) settings.done->fetch_add(rows.size());
           });
  std::ranges::sort(results.rows, {}, &RunResult::id);
  return results;
}

}  // namespace baechi
