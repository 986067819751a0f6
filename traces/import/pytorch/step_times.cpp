#include "traces/import/pytorch/step_times.h"

#include <cmath>

#include "sim/text.h"
#include "traces/format/compressed_file.h"

namespace baechi::pytorch {

namespace {

/// The median; 0 if `values` is empty.
double median_of(std::vector<double> values) {
  if (values.empty()) return 0.0;
  std::ranges::sort(values);
  const std::size_t half = values.size() / 2;
  return values.size() % 2 == 1 ? values[half] : (values[half - 1] + values[half]) / 2;
}

/// Whether the call or an inner call became an op (which may have been removed since).
bool became_op(const Dataflow& flow, const Call& call) {
  return flow.op_of_call[call.index] != nullptr ||
         std::ranges::any_of(call.children, [&](const Call* c) { return became_op(flow, *c); });
}

}  // namespace

Times::Times(const ExecutionTrace& trace, const std::string& path,
             std::span<TextFile* const> kineto) {
  for (TextFile* const file : kineto) {
    Kineto read = read_kineto(*file);
    try {
      Join joined = join(trace, read, path, file->path());
      std::vector<CallTime> calls = call_times(trace, read, joined);
      steps_.push_back({std::move(read), std::move(joined), std::move(calls)});
    } catch (const InputError&) {  // the profiler may lose events of a step
      if (2 * ++left_out_ > kineto.size()) throw;
    }
  }
  if (!known()) return;
  std::int64_t live = 0;
  for (const MemoryEvent& event : this->kineto().memory) {
    if (event.on_device != on_gpu()) continue;
    memory_.push_back(event);
    live_.push_back(live += event.bytes);
  }
}

/// Time of the op's kernels if the recording has a GPU, else of its calls.
Duration Times::compute(const RecordedOp& op, const Step& step) const {
  Duration sum{};
  for (const Call* call : op.calls) {
    const CallTime& t = step.calls[call->index];
    const auto whole = static_cast<double>((on_gpu() ? t.device : t.end - t.start).count());
    sum += Duration{std::llround(whole * call->to) - std::llround(whole * call->from)};
    if (!step.overhead.empty()) sum += step.overhead[call->index];
  }
  return sum;
}

Duration Times::compute(const RecordedOp& op) const {
  if (const auto it = filled_.find(&op); it != filled_.end()) return it->second;
  std::vector<double> times;
  for (const Step& step : steps_)
    if (measured(op, step)) times.push_back(static_cast<double>(compute(op, step).count()));
  return Duration{std::llround(median_of(std::move(times)))};
}

std::vector<Times::Span> Times::spans(const Dataflow& flow, const Step& step) const {
  std::vector<Span> spans;
  for (std::size_t k = 0; k < flow.ops.size(); ++k)
    for (const Call* call : flow.ops[k]->calls)
      if (const CallTime& t = step.calls[call->index]; t.known)
        spans.push_back({t.start, t.end, call, k});
  std::ranges::stable_sort(spans, {}, &Span::start);
  if (!with_overhead_) return spans;
  const Call* before = nullptr;
  for (std::size_t i = 0; i < spans.size(); ++i) {
    const Call& around = outermost(*spans[i].call);
    const CallTime& t = step.calls[around.index];
    const bool last = i + 1 == spans.size() || &outermost(*spans[i + 1].call) != &around;
    if (t.known && !spans[i].call->is_part()) {
      spans[i].start = std::min(spans[i].start, before == &around ? spans[i - 1].end : t.start);
      if (last) spans[i].end = std::max(spans[i].end, t.end);
    }
    before = &around;
  }
  return spans;
}

void Times::add_overhead(const Dataflow& flow) {
  if (!known() || on_gpu()) return;
  with_overhead_ = true;
  for (Step& step : steps_) {
    step.overhead.assign(step.calls.size(), Duration{});
    const std::vector<Span> all = spans(flow, step);
    for (const Span& span : all) {
      const CallTime& t = step.calls[span.call->index];
      step.overhead[span.call->index] = (span.end - span.start) - (t.end - t.start);
    }
    for (const auto& [root, phase] : flow.roots) {
      const CallTime& t = step.calls[root->index];
      const auto next = std::ranges::lower_bound(all, t.start, {}, &Span::start);
      if (next != all.end() && next->start >= t.end && !became_op(flow, *root))
        step.overhead[next->call->index] += t.end - t.start;
    }
  }
}

std::vector<Times::OpShare> Times::taken(const Dataflow& flow, const Step& step) const {
  const std::vector<Span> items = spans(flow, step);
  std::vector<Duration> starts;
  for (const HostEvent& event : step.kineto.calls) starts.push_back(event.start);
  std::ranges::sort(starts);
  const auto before = [&](Duration at) {
    return static_cast<double>(std::ranges::lower_bound(starts, at) - starts.begin());
  };
  std::vector<OpShare> taken(flow.ops.size());
  Duration until = items.empty() ? Duration{} : items.front().start;
  for (const Span& item : items) {
    OpShare& op = taken[item.op];
    const double share = item.call->to - item.call->from;
    op.ns += share * static_cast<double>((item.end - item.start).count());
    op.events += share * (before(item.end) - before(item.start));
    if (item.start > until) {
      op.ns += static_cast<double>((item.start - until).count());
      op.events += before(item.start) - before(until);
    }
    until = std::max(until, item.end);
  }
  return taken;
}

void Times::fill(const Dataflow& flow, Duration step, Trace& trace) {
  Duration alone{};
  for (const RecordedOp* op : flow.ops) alone += compute(*op);
  const auto whole = static_cast<double>(step.count());
  const double off = static_cast<double>(alone.count()) / whole - 1.0;
  trace.notes.push_back(fmt::format(
      "{}the ops take {}, {:+.1f} % of the {} of a step without a profiler{}",
      std::abs(off) > 0.05 ? "warning: " : "", to_text(alone), 100.0 * off, to_text(step),
      off > 0.05 ? ": record the execution trace in one step and times in others" : ""));
  if (on_gpu()) return;
  std::vector<std::vector<OpShare>> steps;
  for (const Step& s : steps_) steps.push_back(taken(flow, s));
  std::vector<OpShare> middle(flow.ops.size());
  OpShare sum;
  for (std::size_t k = 0; k < flow.ops.size(); ++k) {
    std::vector<double> ns, events;
    for (const auto& s : steps) ns.push_back(s[k].ns), events.push_back(s[k].events);
    middle[k] = {median_of(std::move(ns)), median_of(std::move(events))};
    sum.ns += middle[k].ns;
    sum.events += middle[k].events;
  }
  const double each = sum.events > 0.0 ? (whole - sum.ns) / sum.events : 0.0;
  for (std::size_t k = 0; k < flow.ops.size(); ++k)
    filled_[flow.ops[k]] =
        Duration{std::max<std::int64_t>(0, std::llround(middle[k].ns + each * middle[k].events))};
}

bool Times::measured(const RecordedOp& op, const Step& step) {
  return std::ranges::all_of(op.calls, [&](const Call* c) { return step.calls[c->index].known; });
}

bool Times::measured(const RecordedOp& op) const {
  return std::ranges::any_of(steps_, [&](const Step& step) { return measured(op, step); });
}

/// The first memory event that is not before the call.
std::size_t Times::first_event(const CallTime& t) const {
  auto event = std::ranges::lower_bound(memory_, t.start, {}, &MemoryEvent::at);
  while (event != memory_.end() && event->at == t.start && event->line < t.line) ++event;
  return static_cast<std::size_t>(event - memory_.begin());
}

std::optional<std::int64_t> Times::live_before(const Call& call) const {
  if (memory_.empty() || !steps_.front().calls[call.index].known) return std::nullopt;
  const std::size_t event = first_event(steps_.front().calls[call.index]);
  return event == 0 ? 0 : live_[event - 1];
}

std::optional<std::pair<std::size_t, std::size_t>> Times::events(const RecordedOp& op) const {
  if (memory_.empty() || op.calls.empty() || !measured(op, steps_.front())) return std::nullopt;
  Duration end{};
  for (const Call* call : op.calls) {
    if (call->is_part()) return std::nullopt;
    end = std::max(end, steps_.front().calls[call->index].end);
  }
  const std::size_t first = first_event(steps_.front().calls[op.calls.front()->index]);
  const auto behind = std::ranges::upper_bound(memory_, end, {}, &MemoryEvent::at);
  return std::pair(first, std::max(first, static_cast<std::size_t>(behind - memory_.begin())));
}

std::vector<Times::Block> Times::blocks() const {
  std::vector<Block> blocks;
  std::unordered_map<std::int64_t, std::size_t> open;  // by address; looked up
  for (std::size_t i = 0; i < memory_.size(); ++i) {
    const MemoryEvent& event = memory_[i];
    if (!event.address) continue;
    if (event.bytes > 0) {
      open.insert_or_assign(*event.address, blocks.size());
      blocks.push_back({event.bytes, i, memory_.size()});
    } else if (const auto block = open.find(*event.address); block != open.end()) {
      blocks[block->second].end = i;
      open.erase(block);
    }
  }
  return blocks;
}

std::optional<std::int64_t> Times::peak(const RecordedOp& op, const Call& since) const {
  const auto at_start = live_before(*op.calls.front()), before = live_before(since);
  const auto while_it_runs = events(op);
  if (!at_start || !before || !while_it_runs) return std::nullopt;
  std::int64_t peak = *at_start;
  for (std::size_t i = while_it_runs->first; i < while_it_runs->second; ++i)
    peak = std::max(peak, live_[i]);
  return peak - *before;
}

std::int64_t Times::temporary(const RecordedOp& op, const Call& since) const {
  std::int64_t bytes = peak(op, since).value_or(0);
  for (const Contents* c : outputs(op))
    if (!c->in_place) bytes -= c->bytes;
  return std::max<std::int64_t>(0, bytes);
}

void Times::note(const Dataflow& flow, std::size_t calls, Trace& trace) const {
  if (!known()) {
    trace.notes.emplace_back(
        "no times: give the Kineto trace of the same run as option kineto; work is by formula from "
        "tensor shapes");
    return;
  }
  std::string text = fmt::format("times: {} of {} calls joined by {}", steps_.front().join.matched,
                                 calls, steps_.front().join.key);
  if (steps_.front().join.repeated > 1)
    text += fmt::format(
        ", of {} runs {}", steps_.front().join.repeated,
        steps_.front().join.numbers_agreed ? "the one with autograd's numbers" : "the last");
  if (steps_.size() > 1) text += fmt::format("; medians of {} steps", steps_.size());
  if (left_out_ > 0)
    text += fmt::format("; {} skipped: they have less than 99 % of the calls", left_out_);
  trace.notes.push_back(std::move(text));
  const bool updates =
      std::ranges::any_of(flow.roots, [](const auto& r) { return r.second == Phase::update; });
  if (!updates && std::ranges::any_of(kineto().calls, [](const HostEvent& e) {
        return e.name.starts_with("Optimizer.step");
      }))
    trace.notes.emplace_back(
        "warning: the Kineto trace has an optimizer call, the execution trace has none: it is not "
        "a complete step");
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
  for (const auto& [root, phase] : flow.roots) of_calls += steps_.front().calls[root->index].device;
  trace.notes.push_back(
      fmt::format("times on the GPU: {} of {} of the step's kernels and copies; {} of {} ops "
                  "launched none and take no time",
                  to_text(sum), to_text(of_calls), on_host, run));
  note_count(trace.notes, kineto().overruns,
             "{1}{0} kernels, copies or fills end after the next one of their stream began; {2} "
             "are cut off",
             100 * kineto().cut > kineto().device_time ? "warning: " : "", to_text(kineto().cut));
  note_count(trace.notes, kineto().without_launch,
             "{} of {} kernels and copies have no recorded launch", kineto().device_events);
}

}  // namespace baechi::pytorch
