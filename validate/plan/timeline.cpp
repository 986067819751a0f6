#include "validate/plan/timeline.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <tuple>

namespace baechi::validate {

double quantile(Samples samples, double q) {
  if (samples.empty()) return 0.0;
  std::ranges::sort(samples);
  const double at = q * static_cast<double>(samples.size() - 1);
  const auto below = static_cast<std::size_t>(at);
  const std::size_t above = std::min(below + 1, samples.size() - 1);
  return samples[below] + (at - static_cast<double>(below)) * (samples[above] - samples[below]);
}

double median(Samples samples) { return quantile(std::move(samples), 0.5); }

double trimmed_mean(Samples samples) {
  if (samples.empty()) return 0.0;
  std::ranges::sort(samples);
  const auto cut = static_cast<std::ptrdiff_t>(samples.size() / 10);
  const double sum = std::accumulate(samples.begin() + cut, samples.end() - cut, 0.0);
  return sum / static_cast<double>(samples.end() - samples.begin() - 2 * cut);
}

}  // namespace baechi::validate

namespace baechi::validate::replay {

namespace {

std::int64_t first_start(const Timeline& times) {
  std::int64_t first = std::numeric_limits<std::int64_t>::max();
  for (const Interval& i : times)
    if (i.known()) first = std::min(first, i.start);
  return first;
}

}  // namespace

void start_at_zero(Timeline& times) {
  const std::int64_t first = first_start(times);
  for (Interval& i : times)
    if (i.known()) i = {i.start - first, i.end - first};
}

std::int64_t span(const Timeline& times) {
  const std::int64_t first = first_start(times);
  std::int64_t longest = 0;
  for (const Interval& i : times)
    if (i.known()) longest = std::max(longest, i.end - first);
  return longest;
}

std::string disorder(const ReplayPlan& plan, const Timeline& times, std::int64_t tick) {
  std::vector<int> before(static_cast<std::size_t>(plan.num_queues()), -1);
  // [tasks] the earliest possible end of each: of a task with unknown times, the ends of those that
  // it waits for
  std::vector<std::int64_t> ended;
  for (std::size_t i = 0; i < plan.tasks.size(); ++i) {
    const Task& task = plan.tasks[i];
    int& last = before[static_cast<std::size_t>(plan.queue_of(task))];
    ended.push_back(times[i].known() ? times[i].end : std::numeric_limits<std::int64_t>::min());
    const auto is_early = [&](int other) {
      if (other < 0) return false;
      const std::int64_t end = ended[static_cast<std::size_t>(other)];
      if (!times[i].known()) ended[i] = std::max(ended[i], end);
      return times[i].known() && times[i].start + tick < end;
    };
    if (is_early(last))
      return "task " + std::to_string(i) + " began before task " + std::to_string(last) +
             " of its queue had ended";
    for (const int other : task.after)
      if (is_early(other))
        return "task " + std::to_string(i) + " began before task " + std::to_string(other) +
               ", which it comes after, had ended";
    last = static_cast<int>(i);
  }
  return "";
}

std::vector<std::int64_t> peak_bytes(const ReplayPlan& plan, const Timeline& times) {
  // Time; at one instant what ends, what begins, what began and ends there; bytes, device.
  std::vector<std::tuple<std::int64_t, int, std::int64_t, std::size_t>> changes;
  for (const Buffer& buffer : plan.buffers) {
    const Interval& first = times[static_cast<std::size_t>(buffer.task)];
    std::int64_t last = first.end;
    for (const int reader : buffer.until) {
      const Interval& read = times[static_cast<std::size_t>(reader)];
      if (!read.known()) return {};
      last = std::max(last, read.end);
    }
    if (!first.known()) return {};
    changes.emplace_back(first.start, 1, buffer.bytes, buffer.device);
    changes.emplace_back(last, last == first.start ? 2 : 0, -buffer.bytes, buffer.device);
  }
  std::ranges::sort(changes);
  std::vector<std::int64_t> live = plan.resident;
  std::vector<std::int64_t> peak = live;
  for (const auto& [time, rank, bytes, device] : changes) {
    live[device] += bytes;
    peak[device] = std::max(peak[device], live[device]);
  }
  return peak;
}

Timeline first_in_first_out(const ReplayPlan& plan, std::int64_t gap_same, std::int64_t gap_cross) {
  std::vector<std::int64_t> free(static_cast<std::size_t>(plan.num_queues()), -1);
  Timeline times;
  for (const Task& task : plan.tasks) {
    std::int64_t& queue = free[static_cast<std::size_t>(plan.queue_of(task))];
    std::int64_t start = queue < 0 ? 0 : queue + gap_same;
    for (const int other : task.after) {
      const auto o = static_cast<std::size_t>(other);
      if (plan.queue_of(plan.tasks[o]) != plan.queue_of(task))
        start = std::max(start, times[o].end + gap_cross);
    }
    queue = start + task.length.count();
    times.push_back({start, queue});
  }
  return times;
}

}  // namespace baechi::validate::replay
