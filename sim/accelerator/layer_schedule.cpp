#include "sim/accelerator/layer_schedule.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>

namespace baechi {
namespace {

/// The longest path from each task to the end, its own time included. [tasks]
std::vector<Duration> upward_ranks(std::span<const PoolTask> tasks) {
  std::vector<Duration> rank(tasks.size(), Duration::zero());
  for (std::size_t i = tasks.size(); i-- > 0;) {
    rank[i] += tasks[i].time;
    for (const std::uint32_t before : tasks[i].after)
      rank[before] = std::max(rank[before], rank[i]);
  }
  return rank;
}

Duration traffic_time(std::span<const PoolTask> tasks, const AcceleratorRates& rates) {
  Bytes sum{};
  for (const PoolTask& task : tasks) sum += task.traffic;
  return Duration{static_cast<std::int64_t>(
      std::ceil(static_cast<double>(sum.count) / rates.memory.bytes_per_second * 1e9))};
}

}  // namespace

std::vector<PoolTask> pool_tasks(std::span<const CoreTask> layer, const Accelerator& a,
                                 const AcceleratorRates& rates) {
  std::vector<PoolTask> tasks;
  tasks.reserve(layer.size());
  for (const CoreTask& task : layer) {
    const CoreCost cost = core_cost(task.op, a, rates);
    tasks.push_back({.tensor = task.op.is_gemm(),
                     .cores = cost.cores,
                     .time = cost.time,
                     .traffic = cost.traffic,
                     .after = task.after});
  }
  return tasks;
}

LayerSchedule list_schedule(std::span<const PoolTask> tasks, const Accelerator& a,
                            const AcceleratorRates& rates) {
  const std::vector<Duration> rank = upward_ranks(tasks);
  std::vector<std::uint32_t> waiting(tasks.size());
  std::iota(waiting.begin(), waiting.end(), 0U);
  std::ranges::stable_sort(waiting, std::greater<>(), [&](std::uint32_t i) { return rank[i]; });
  LayerSchedule schedule{.start = std::vector<Duration>(tasks.size())};
  std::vector<Duration> end(tasks.size(), Duration::max());
  std::vector<std::uint32_t> running;
  std::array<std::int64_t, 2> free{a.vector_cores, a.tensor_cores};
  Duration now{};
  while (!waiting.empty() || !running.empty()) {
    std::erase_if(waiting, [&](std::uint32_t i) {
      const PoolTask& task = tasks[i];
      std::int64_t& cores = free[task.tensor ? 1 : 0];
      const bool ready = std::ranges::all_of(task.after, [&](auto b) { return end[b] <= now; });
      if (!ready || task.cores > cores) return false;
      cores -= task.cores;
      schedule.start[i] = now;
      end[i] = now + task.time;
      running.push_back(i);
      return true;
    });
    Duration next = Duration::max();
    for (const std::uint32_t i : running) next = std::min(next, end[i]);
    now = next;
    std::erase_if(running, [&](std::uint32_t i) {
      if (end[i] > now) return false;
      free[tasks[i].tensor ? 1 : 0] += tasks[i].cores;
      return true;
    });
  }
  schedule.makespan = std::max(now, traffic_time(tasks, rates));
  return schedule;
}

Duration least_makespan(std::span<const PoolTask> tasks, const Accelerator& a,
                        const AcceleratorRates& rates) {
  Duration least = traffic_time(tasks, rates);
  for (const Duration rank : upward_ranks(tasks)) least = std::max(least, rank);
  std::array<double, 2> work{};
  for (const PoolTask& task : tasks)
    work[task.tensor ? 1 : 0] +=
        static_cast<double>(task.cores) * static_cast<double>(task.time.count());
  const std::array<std::int64_t, 2> cores{a.vector_cores, a.tensor_cores};
  for (std::size_t pool = 0; pool < 2; ++pool)
    least = std::max(
        least, Duration{static_cast<std::int64_t>(work[pool] / static_cast<double>(cores[pool]))});
  return least;
}

}  // namespace baechi
