#include "traces/import/pytorch/steps.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "sim/error.h"

namespace baechi::pytorch {
namespace {

/// The outermost_calls calls that are not frames of the user or the profiler.
std::vector<Call*> outermost_calls(ExecutionTrace& trace) {
  std::vector<bool> open(trace.calls.size());  // [calls] a frame within frames only
  std::vector<Call*> found;
  for (Call& call : trace.calls) {
    if (call.parent != nullptr && !open[call.parent->index]) continue;
    const bool frame = !call.is_operator && !call.is_triton && !call.is_autograd() &&
                       !call.is_optimizer() && call.sequence < 0 &&
                       call.name != "record_param_comms";
    if (frame)
      open[call.index] = true;
    else
      found.push_back(&call);
  }
  return found;
}

struct StepRange {
  std::string name;
  std::int64_t first = 0, end = 0;  // ids of calls, [first, end)
  std::size_t calls = 0;            // operators
  bool trained = false, updated = false;

  bool is_whole(const StepRange& longest) const {
    return 10 * calls >= 9 * longest.calls && trained >= longest.trained &&
           updated >= longest.updated;
  }
};

std::vector<StepRange> steps_of(const ExecutionTrace& trace) {
  std::vector<StepRange> steps;
  for (const Call& call : trace.calls) {
    if (call.name.starts_with("ProfilerStep#")) {
      if (!steps.empty()) steps.back().end = call.id;
      steps.push_back(
          {.name = call.name, .first = call.id, .end = std::numeric_limits<std::int64_t>::max()});
    } else if (!steps.empty()) {
      steps.back().calls += call.is_operator ? 1U : 0U;
      steps.back().trained |= call.is_autograd();
      steps.back().updated |= call.name.starts_with("Optimizer.step");
    }
  }
  return steps;
}

}  // namespace

std::vector<Call*> one_step(ExecutionTrace& trace, const std::string& path, std::int64_t wanted,
                            std::vector<std::string>& notes) {
  const std::vector<StepRange> steps = steps_of(trace);
  const auto n = static_cast<std::int64_t>(std::max<std::size_t>(1, steps.size()));
  if (wanted > n)
    throw InputError(
        fmt::format("{}: step {}: the recording has {} (calls ProfilerStep#...)", path, wanted, n));
  std::vector<Call*> calls = outermost_calls(trace);
  if (n == 1) return calls;
  const StepRange& longest = *std::ranges::max_element(steps, {}, &StepRange::calls);
  auto k = static_cast<std::size_t>(wanted == 0 ? n : wanted);
  for (; wanted == 0 && k > 1 && !steps[k - 1].is_whole(longest); --k) {
    const StepRange& left = steps[k - 1];
    notes.push_back(fmt::format("step {} of {} is incomplete: {} has {} of {} calls", k, n,
                                left.name, left.calls, longest.calls));
  }
  const StepRange& step = steps[k - 1];
  if (!step.is_whole(longest))
    throw InputError(fmt::format("{}: step {} of {} is incomplete: {} has {} of {} calls", path, k,
                                 n, step.name, step.calls, longest.calls));
  std::erase_if(calls, [&](const Call* c) { return c->id < step.first || c->id >= step.end; });
  notes.push_back(fmt::format("step {} of {} in the recording: {}", k, n, step.name));
  return calls;
}

}  // namespace baechi::pytorch
