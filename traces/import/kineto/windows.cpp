#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <map>
#include <unordered_map>

#include "traces/import/kineto/step.h"

namespace baechi::kineto {
namespace {

std::vector<Window> by_profiler(const Recording& recording) {
  std::vector<Window> steps;
  for (const Call& call : recording.calls)
    if (call.name.starts_with("ProfilerStep#"))
      steps.push_back({call.name, call.start, call.end()});
  std::ranges::stable_sort(steps, {}, &Window::start);
  return steps;
}

/// Steps from the end of one optimizer call to the end of the next; the first begins at `from`.
std::vector<Window> by_optimizer(const Recording& recording, Duration from) {
  std::vector<Duration> ends;
  for (const Call& call : recording.calls)
    if (call.name.starts_with("Optimizer.step")) ends.push_back(call.end());
  std::ranges::sort(ends);
  std::vector<Window> steps;
  for (const Duration end : ends) {
    steps.push_back(
        {fmt::format("step {}, by the optimizer's calls", steps.size() + 1), from, end});
    from = end;
  }
  return steps;
}

Window everything(const Recording& recording) {
  Window whole{"the whole recording", Duration::max(), Duration::min()};
  const auto include = [&](Duration start, Duration end) {
    whole.start = std::min(whole.start, start);
    whole.end = std::max(whole.end, std::max(end, start + Duration{1}));
  };
  for (const Call& call : recording.calls) include(call.start, call.end());
  for (const DeviceWork& work : recording.work) include(work.start, work.end());
  return whole;
}

}  // namespace

std::vector<Window> steps_of(const Recording& recording) {
  std::vector<Window> steps = by_profiler(recording);
  if (!steps.empty()) return steps;
  const Window whole = everything(recording);
  steps = by_optimizer(recording, whole.start);
  if (steps.size() < 2) return {whole};
  return steps;
}

Window period_of(const std::vector<Window>& steps, std::size_t k, const Recording& recording) {
  std::unordered_map<std::int64_t, Duration> launched;  // by correlation
  for (const Call& call : recording.calls)
    if (call.kind == CallKind::runtime && call.correlation)
      launched.emplace(*call.correlation, call.start);
  const auto launch_of = [&](const DeviceWork& work) -> std::optional<Duration> {
    const auto found = work.correlation ? launched.find(*work.correlation) : launched.end();
    return found == launched.end() ? std::nullopt : std::optional(found->second);
  };
  // Work before a stream's first work with a recorded launch was launched before the recording.
  std::map<std::pair<std::int64_t, std::int64_t>, Duration> first;  // by stream
  for (const DeviceWork& work : recording.work)
    if (launch_of(work)) {
      Duration& start = first.try_emplace({work.device, work.stream}, work.start).first->second;
      start = std::min(start, work.start);
    }
  // When the GPUs have finished all work launched before `t`.
  const auto finished_before = [&](Duration t) {
    Duration end = t;
    for (const DeviceWork& work : recording.work) {
      const auto known = first.find({work.device, work.stream});
      const bool backlog = known != first.end() && work.start < known->second;
      if (backlog || launch_of(work).value_or(work.start) < t) end = std::max(end, work.end());
    }
    return end;
  };
  const Window& step = steps[k];
  const bool last = k + 1 == steps.size();
  if (last && k == 0 && !step.name.starts_with("ProfilerStep#"))
    return step;  // the whole recording
  return {.name = step.name,
          .start = finished_before(step.start),
          .end = finished_before(last ? step.end : steps[k + 1].start),
          .host_end = std::max(steps.back().end, step.end)};
}

std::size_t last_covered(const std::vector<Window>& steps, std::size_t k,
                         const Recording& recording) {
  for (std::size_t i = k + 1; i-- > 0;) {
    const Window period = period_of(steps, i, recording);
    if (20 * (period.end - steps.back().end) <= period.end - period.start) return i;
    if (k - i > 20) break;
  }
  return k;
}

std::size_t last_whole(const std::vector<Window>& steps, const Recording& recording) {
  std::vector<std::size_t> calls(steps.size());
  for (const Call& call : recording.calls) {
    if ((call.kind == CallKind::runtime) == recording.work.empty()) continue;
    const auto after = std::ranges::upper_bound(steps, call.start, {}, &Window::start);
    if (after == steps.begin()) continue;
    const auto step = static_cast<std::size_t>(after - steps.begin()) - 1;
    if (steps[step].holds(call.start)) ++calls[step];
  }
  std::vector<std::size_t> sorted = calls;
  std::ranges::sort(sorted);
  const std::size_t usual = sorted[sorted.size() / 2];
  std::size_t last = steps.size() - 1;
  while (last > 0 && 10 * calls[last] < 9 * usual) --last;
  return last;
}

}  // namespace baechi::kineto
