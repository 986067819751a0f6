#include "traces/import/pytorch/step_times.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "sim/text.h"
#include "traces/format/compressed_file.h"

namespace baechi::pytorch {

Times::Times(const ExecutionTrace& trace, const std::string& path, TextFile& kineto)
    : kineto_(read_kineto(kineto)),
      join_(join(trace, kineto_, path, kineto.path())),
      calls_(call_times(trace, kineto_, join_)) {
  std::int64_t live = 0;
  for (const MemoryEvent& event : kineto_.memory) {
    if (event.on_device != on_gpu()) continue;
    memory_.push_back(event);
    live_.push_back(live += event.bytes);
  }
}

/// The time of the op's kernels if the recording has a GPU, else the time of its calls.
Duration Times::compute(const RecordedOp& op) const {
  Duration sum{};
  if (!known()) return sum;
  for (const Call* call : op.calls) {
    const CallTime& t = calls_[call->index];
    const auto whole = static_cast<double>((on_gpu() ? t.device : t.end - t.start).count());
    sum += Duration{std::llround(whole * call->to) - std::llround(whole * call->from)};
  }
  return sum;
}

bool Times::measured(const RecordedOp& op) const {
  return std::ranges::all_of(op.calls, [&](const Call* c) { return calls_[c->index].known; });
}

/// The bytes allocated before `call` begins, as far as the recording saw them allocated.
std::int64_t Times::live_before(const Call& call) const {
  const CallTime& t = calls_[call.index];
  auto event = std::ranges::lower_bound(memory_, t.start, {}, &MemoryEvent::at);
  while (event != memory_.end() && event->at == t.start && event->line < t.line) ++event;
  return event == memory_.begin() ? 0
                                  : live_[static_cast<std::size_t>(event - memory_.begin()) - 1];
}

std::int64_t Times::temporary(const RecordedOp& op, const Call& since) const {
  if (memory_.empty() || !measured(op) || !calls_[since.index].known) return 0;
  Duration end = calls_[op.calls.front()->index].end;
  for (const Call* call : op.calls) {
    if (call->is_part()) return 0;
    end = std::max(end, calls_[call->index].end);
  }
  const CallTime& first = calls_[op.calls.front()->index];
  std::int64_t peak = live_before(*op.calls.front());
  auto event = std::ranges::lower_bound(memory_, first.start, {}, &MemoryEvent::at);
  for (; event != memory_.end() && event->at <= end; ++event)
    if (event->at != first.start || event->line >= first.line)
      peak = std::max(peak, live_[static_cast<std::size_t>(event - memory_.begin())]);
  peak -= live_before(since);
  for (const Contents* c : op.writes)
    if (!c->readers.empty() && !c->in_place) peak -= c->bytes;
  return std::max<std::int64_t>(0, peak);
}

void Times::note(const Dataflow& flow, std::size_t calls, Trace& trace) const {
  if (!known()) {
    trace.notes.emplace_back(
        "no times: the Kineto trace of the same run is option kineto; work is by formula, from the "
        "tensors' shapes");
    return;
  }
  std::string text =
      fmt::format("times: {} of {} calls joined by {}", join_.matched, calls, join_.key);
  if (join_.repeated > 1)
    text += fmt::format(", of {} runs {}", join_.repeated,
                        join_.numbers_agreed ? "the one with autograd's numbers" : "the last");
  trace.notes.push_back(std::move(text));
  const bool updates =
      std::ranges::any_of(flow.roots, [](const auto& r) { return r.second == Phase::update; });
  if (!updates && std::ranges::any_of(kineto_.calls, [](const HostEvent& e) {
        return e.name.starts_with("Optimizer.step");
      }))
    trace.notes.emplace_back(
        "warning: the Kineto trace has a call of the optimizer, the execution trace has none: it "
        "does not hold the whole step");
  std::size_t on_host = 0, run = 0;
  Duration sum{};
  for (const RecordedOp* op : flow.ops) {
    if (op->calls.empty()) continue;
    ++run;
    if (!measured(*op))
      trace.untimed.add(op->kind, op->name, "its call is not in the Kineto trace");
    sum += compute(*op);
    on_host += compute(*op) == Duration{} ? 1U : 0U;
  }
  if (!on_gpu()) return;
  Duration of_calls{};
  for (const auto& [root, phase] : flow.roots) of_calls += calls_[root->index].device;
  trace.notes.push_back(fmt::format(
      "times on the GPU: {} of {} in the step's kernels and copies; {} of {} ops launched "
      "none and take none",
      to_text(sum), to_text(of_calls), on_host, run));
  if (kineto_.launched_by_none > 0)
    trace.notes.push_back(
        fmt::format("{} of {} kernels and copies: no call is known to launch them",
                    kineto_.launched_by_none, kineto_.device_events));
}

}  // namespace baechi::pytorch
