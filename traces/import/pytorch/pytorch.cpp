#include "traces/import/pytorch/pytorch.h"

#include <algorithm>
#include <cmath>
#include <filesystem>

#include "sim/enum_option.h"
#include "traces/format/compressed_file.h"
#include "traces/import/pytorch/join.h"

namespace baechi::pytorch {
namespace {

// Decisions; traces/README.md ("PyTorch") has the details:
// - An op is the outermost call with one kernel inside.
// - Dependencies go by storage, through views and writes in place.
// - An op's time on a GPU is the time of the kernels that it launched.
// - A parameter and its optimizer state are persistent bytes of the op that reads it first.

/// The model's name in a file's: "gnmt" for "runs/gnmt.et.json.gz".
std::string name_of(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  for (const std::string_view ending : {".gz", ".zst", ".json", ".et", ".eg"})
    if (name.size() > ending.size() && name.ends_with(ending))
      name.resize(name.size() - ending.size());
  return name;
}

/// The outermost calls inside the user's and the profiler's frames.
std::vector<Call*> outermost(ExecutionTrace& trace) {
  std::vector<bool> open(trace.calls.size());  // [calls] a frame with only frames around it
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

/// The outermost calls of one profiler step; `wanted` counts steps from 1, 0 is the last.
std::vector<Call*> one_step(ExecutionTrace& trace, const std::string& path, std::int64_t wanted,
                            Trace& result) {
  std::vector<const Call*> steps;
  for (const Call& call : trace.calls)
    if (call.name.starts_with("ProfilerStep#")) steps.push_back(&call);
  const auto n = static_cast<std::int64_t>(std::max<std::size_t>(1, steps.size()));
  if (wanted > n)
    throw InputError(fmt::format("{}: step {}: the recording has {} (told by ProfilerStep#...)",
                                 path, wanted, n));
  std::vector<Call*> calls = outermost(trace);
  if (n == 1) return calls;
  const auto k = static_cast<std::size_t>(wanted == 0 ? n : wanted);
  const std::int64_t first = steps[k - 1]->id;
  std::erase_if(calls, [&](const Call* c) {
    return c->id < first || (k < steps.size() && c->id >= steps[k]->id);
  });
  result.notes.push_back(
      fmt::format("step {} of {} in the recording: {}", k, n, steps[k - 1]->name));
  return calls;
}

/// The times of a recording, and the ops' times and temporary bytes that follow from them.
class Times {
 public:
  Times() = default;
  Times(const ExecutionTrace& trace, const std::string& path, TextFile& kineto)
      : kineto_(read_kineto(kineto)),
        join_(join(trace, kineto_, path, kineto.path())),
        calls_(call_times(trace, kineto_, join_)) {}

  bool known() const { return !calls_.empty(); }
  bool on_gpu() const { return kineto_.device_events > 0; }
  Duration compute(const RecordedOp& op) const;
  bool measured(const RecordedOp& op) const;
  std::int64_t temporary(const RecordedOp& op) const;
  void note(const Dataflow& flow, std::size_t calls, Trace& trace) const;
  const Kineto& kineto() const { return kineto_; }

 private:
  Kineto kineto_;
  Join join_;
  std::vector<CallTime> calls_;
};

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

/// Temporary bytes: the peak of allocated bytes while the op runs, less the bytes allocated at its
/// start, less the outputs that it allocated. 0 for a part of a call, where they are not known.
std::int64_t Times::temporary(const RecordedOp& op) const {
  if (!known() || op.calls.empty() || kineto_.memory.empty() || !measured(op)) return 0;
  Duration end = calls_[op.calls.front()->index].end;
  for (const Call* call : op.calls) {
    if (call->to - call->from < 1.0) return 0;
    end = std::max(end, calls_[call->index].end);
  }
  const CallTime& first = calls_[op.calls.front()->index];
  auto event = std::ranges::lower_bound(kineto_.memory, first.start, {}, &MemoryEvent::at);
  std::int64_t live = 0, peak = 0;
  for (; event != kineto_.memory.end() && event->at <= end; ++event) {
    if (event->on_device != on_gpu() || (event->at == first.start && event->line < first.line))
      continue;
    live += event->bytes;
    peak = std::max(peak, live);
  }
  for (const Contents* c : op.writes)
    if (!c->readers.empty() && !c->in_place) peak -= c->bytes;
  return std::max<std::int64_t>(0, peak);
}

void Times::note(const Dataflow& flow, std::size_t calls, Trace& trace) const {
  if (!known()) {
    trace.notes.emplace_back("no times: the Kineto trace of the same run is option kineto");
    return;
  }
  std::string text =
      fmt::format("times: {} of {} calls joined by {}", join_.matched, calls, join_.key);
  if (join_.repeated > 1)
    text += fmt::format(", of {} runs {}", join_.repeated,
                        join_.numbers_agreed ? "the one with autograd's numbers" : "the last");
  trace.notes.push_back(std::move(text));
  std::size_t unmeasured = 0, on_host = 0, run = 0;
  Duration sum{};
  for (const RecordedOp* op : flow.ops) {
    if (op->calls.empty()) continue;
    ++run;
    unmeasured += measured(*op) ? 0U : 1U;
    sum += compute(*op);
    on_host += compute(*op) == Duration{} ? 1U : 0U;
  }
  if (unmeasured > 0) trace.notes.push_back(fmt::format("{} ops have no time", unmeasured));
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

void note_state(const StepState& state, const Dataflow& flow, Trace& trace) {
  if (state.parameters.empty())
    trace.notes.push_back(
        fmt::format("no optimizer: {} bytes are taken for weights, {} bytes for {} inputs, by the "
                    "names of the arguments that take them",
                    state.other_bytes, state.input_bytes, state.inputs));
  else
    trace.notes.push_back(fmt::format(
        "{} parameters of {} bytes, optimizer state of {}, statistics and frozen weights "
        "of {}; {} inputs of {}",
        state.parameters.size(), state.parameter_bytes, state.optimizer_bytes, state.other_bytes,
        state.inputs, state.input_bytes));
  if (flow.split > 0)
    trace.notes.push_back(fmt::format(
        "{} calls on lists of tensors are an op per tensor, with times by bytes", flow.split));
  if (flow.collectives > 0)
    trace.notes.push_back(
        fmt::format("{} collectives are ops like others: of this process, whatever the placement",
                    flow.collectives));
  if (flow.triton > 0)
    trace.notes.push_back(
        fmt::format("{} Triton kernels: what was not there before is what they write, or else "
                    "their last tensor",
                    flow.triton));
}

/// The op's outputs that other ops read, with the results of its call first. If no op reads any,
/// at the end of the step: all outputs of the op, or none if it is an update.
std::vector<const Contents*> outputs(const RecordedOp& op) {
  std::vector<const Contents*> found;
  for (const Contents* c : op.writes)
    if (!c->readers.empty()) found.push_back(c);
  if (found.empty() && op.phase != Phase::update) found.assign(op.writes.begin(), op.writes.end());
  std::ranges::stable_partition(found, [&](const Contents* c) {
    return std::ranges::find(op.results, c->storage) != op.results.end();
  });
  return found;
}

OpGraph build(const Dataflow& flow, const Times& times, const std::string& path) {
  OpGraphBuilder builder;
  const auto id = [](const RecordedOp* op) {
    return static_cast<OpId>(static_cast<std::uint32_t>(op->position));
  };
  for (const RecordedOp* op : flow.ops)
    builder.add_op({.name = op->name,
                    .kind = op->kind,
                    .compute = times.compute(*op),
                    .persistent = {op->persistent},
                    .temporary = {times.temporary(*op)},
                    .phase = op->phase});
  for (const RecordedOp* op : flow.ops) {
    for (const RecordedOp* label : op->labels) builder.colocate(id(op), label->name);
    if (op->phase == Phase::backward && op->forward != nullptr)
      builder.set_forward(id(op), id(op->forward));
    for (const Contents* c : outputs(*op)) {
      const TensorId tensor = builder.add_tensor(id(op), {c->bytes});
      for (const RecordedOp* reader : c->readers) builder.add_edge(tensor, id(reader));
    }
  }
  for (const RecordedOp* op : flow.ops)
    for (const RecordedOp* update : op->updates_after) builder.add_control(id(op), id(update));
  return build_graph(std::move(builder), path);
}

}  // namespace

Trace import_step(TextFile& execution, TextFile* kineto, const Settings& settings) {
  const std::string& path = execution.path();
  if (looks_like_kineto(execution.beginning()) &&
      !looks_like_execution_trace(execution.beginning()))
    throw InputError(fmt::format(
        "{}: a Kineto or Chrome trace: it has times but no tensors; give the execution trace of "
        "the same run (torch.profiler.ExecutionTraceObserver) and this one as option kineto",
        path));
  ExecutionTrace calls = read_execution_trace(execution);
  const std::size_t recorded = calls.calls.size();
  Trace trace{.name = name_of(path)};
  const Times times = kineto != nullptr ? Times(calls, path, *kineto) : Times();
  trace.source = fmt::format("PyTorch execution trace {}", calls.schema);
  if (times.known())
    trace.source +=
        fmt::format(", times of {}", !times.on_gpu()                 ? "a CPU"
                                     : times.kineto().device.empty() ? "a GPU"
                                                                     : times.kineto().device);
  const auto roots = one_step(calls, path, settings.step, trace);
  Dataflow flow = trace_dataflow(calls, phases(roots));
  join_updates(flow);
  const std::vector<RecordedOp*> dropped = drop_unread(flow);
  const StepState state = place_state(flow);
  link_forward(flow);
  name_ops(flow);
  order_updates(state);
  colocate(flow, state, settings.colocate);
  trace.batch = settings.batch != 0 ? settings.batch : state.batch;
  times.note(flow, recorded, trace);
  note_state(state, flow, trace);
  if (!dropped.empty()) {
    Duration sum{};
    for (const RecordedOp* op : dropped) sum += times.compute(*op);
    trace.notes.push_back(fmt::format("{} ops left out, whose results nobody reads: {}",
                                      dropped.size(), to_text(sum)));
  }
  trace.graph = build(flow, times, path);
  return trace;
}

}  // namespace baechi::pytorch

namespace baechi {

bool looks_like_pytorch(std::string_view beginning) {
  return pytorch::looks_like_execution_trace(beginning) || pytorch::looks_like_kineto(beginning);
}

Trace read_pytorch(TextFile& file, Options& options) {
  const std::string path = options.path(
      "kineto", "the times: what torch.profiler's export_chrome_trace wrote of the same run");
  pytorch::Settings settings;
  settings.colocate =
      read_enum(options, "colocate", pytorch::Colocate::readers,
                "who stays with the op that holds a parameter: all its readers and its update; "
                "its update alone; "
                "its readers, its update, and each backward op with its forward op");
  settings.step = options.get("step", std::int64_t{0},
                              "which of several steps (ProfilerStep#...), from 1; 0: the last");
  settings.batch = options.get("batch", std::int64_t{0},
                               "samples per step; 0: the first side of the first input");
  if (path.empty()) return pytorch::import_step(file, nullptr, settings);
  if (!std::filesystem::exists(path)) {
    options.mistake("kineto", fmt::format("no file '{}'", path));
    options.finish();
  }
  TextFile kineto(path);
  return pytorch::import_step(file, &kineto, settings);
}

}  // namespace baechi
