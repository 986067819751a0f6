#include "traces/import/pytorch/pytorch.h"

#include <filesystem>

#include "traces/import/kineto/recording.h"
#include "traces/import/rank_files.h"

namespace baechi::pytorch {
namespace {

/// The outermost calls that are not frames of the user or the profiler.
std::vector<Call*> outermost_calls(ExecutionTrace& trace) {
  std::vector<bool> open(trace.calls.size());  // [calls] a frame, and so are all calls around it
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
  const auto incomplete = [&] {
    const StepRange& step = steps[k - 1];
    return fmt::format("step {} of {} is incomplete: {} has {} of {} calls{}{}", k, n, step.name,
                       step.calls, longest.calls,
                       step.trained < longest.trained ? ", no backward pass" : "",
                       step.updated < longest.updated ? ", no optimizer" : "");
  };
  for (; wanted == 0 && k > 1 && !steps[k - 1].is_whole(longest); --k)
    notes.push_back(incomplete());
  const StepRange& step = steps[k - 1];
  if (!step.is_whole(longest)) throw InputError(fmt::format("{}: {}", path, incomplete()));
  std::erase_if(calls, [&](const Call* c) { return c->id < step.first || c->id >= step.end; });
  notes.push_back(fmt::format("step {} of {} in the recording: {}", k, n, step.name));
  return calls;
}

namespace {

// Decisions: traces/README.md, "PyTorch".

/// The model's name in a path: "gnmt" for "runs/gnmt.et.json.gz".
std::string name_of(const std::string& path) {
  std::string name = std::filesystem::path(path).filename().string();
  for (const std::string_view ending : {".gz", ".zst", ".json", ".et", ".eg"})
    if (name.size() > ending.size() && name.ends_with(ending))
      name.resize(name.size() - ending.size());
  return name;
}

void note_state(const StepState& state, const Dataflow& flow, Trace& trace) {
  if (state.parameters.empty())
    trace.notes.push_back(
        fmt::format("no optimizer: {} bytes are classified as weights, {} bytes as {} inputs, by "
                    "the names of arguments",
                    state.other_bytes, state.input_bytes, state.inputs));
  else
    trace.notes.push_back(
        fmt::format("{} parameters of {} bytes, optimizer state of {}, statistics and frozen "
                    "weights of {}; {} inputs of {}",
                    state.parameters.size(), state.parameter_bytes, state.optimizer_bytes,
                    state.other_bytes, state.inputs, state.input_bytes));
  note_count(trace.notes, flow.split,
             "{} calls on lists of tensors are split into ops per tensor, with times by bytes");
  note_count(trace.notes, flow.collectives,
             "{} collectives are ops of their recorded times, whatever the placement");
  note_count(
      trace.notes, flow.triton,
      "{} Triton kernels: new tensors are taken as their outputs, or else their last tensor");
}

/// Notes the removed ops and their time; a warning if that is over 1 %.
void note_dropped(const std::vector<RecordedOp*>& dropped, const Dataflow& flow, const Times& times,
                  Trace& trace) {
  if (dropped.empty()) return;
  Duration left_out{}, kept{};
  for (const RecordedOp* op : dropped) left_out += times.compute(*op);
  for (const RecordedOp* op : flow.ops) kept += times.compute(*op);
  const bool much = 100 * left_out > left_out + kept;
  trace.notes.push_back(fmt::format("{}{} ops removed because their results are not read: {} of {}",
                                    much ? "warning: " : "", dropped.size(), to_text(left_out),
                                    to_text(left_out + kept)));
}

OpGraph build(const Dataflow& flow, const Times& times, const std::string& path,
              const Settings& settings) {
  OpGraphBuilder builder;
  const auto temporary = workspaces(flow, times, settings.workspace, settings.optimizer);
  const auto id = [](const RecordedOp* op) {
    return static_cast<OpId>(static_cast<std::uint32_t>(op->position));
  };
  for (const RecordedOp* op : flow.ops) {
    const std::string module = module_of(*op);
    builder.add_op({.name = op->name,
                    .kind = op->kind,
                    .compute = times.compute(*op),
                    .persistent = {op->persistent},
                    .temporary = {temporary[op->position]},
                    .phase = op->phase,
                    .module = module});
  }
  for (const RecordedOp* op : flow.ops)
    for (const Call* call : op->calls)
      if (!times.known()) builder.add_kernel(id(op), work_of(*call, settings.convolutions));
  for (const RecordedOp* op : flow.ops) {
    for (const RecordedOp* label : op->labels) builder.colocate(id(op), label->name);
    if (op->phase == Phase::backward && op->forward != nullptr)
      builder.set_forward(id(op), id(op->forward));
    for (const Contents* c : outputs(*op)) {
      const bool stays = c->reference || (c->storage != nullptr && c->storage->state);
      const TensorId tensor = builder.add_tensor(id(op), {c->bytes}, stays);
      for (const RecordedOp* reader : c->readers) builder.add_edge(tensor, id(reader));
    }
  }
  for (const RecordedOp* op : flow.ops)
    for (const RecordedOp* next : op->before) builder.add_control(id(op), id(next));
  return build_graph(std::move(builder), path);
}

}  // namespace

Trace import_step(TextFile& execution, std::span<TextFile* const> kineto,
                  const Settings& settings) {
  const std::string& path = execution.path();
  if (kineto::looks_like_kineto(execution.beginning()) &&
      !looks_like_execution_trace(execution.beginning()))
    throw InputError(fmt::format(
        "{}: a Kineto or Chrome trace has times but no tensors; give the execution trace of the "
        "same run (torch.profiler.ExecutionTraceObserver) and this file as option kineto",
        path));
  ExecutionTrace calls = read_execution_trace(execution);
  const std::size_t recorded = calls.calls.size();
  Trace trace{.name = name_of(path), .untimed = settings.untimed};
  Times times(calls, path, kineto);
  trace.source = fmt::format("PyTorch execution trace {}", calls.schema);
  if (times.known())
    trace.source +=
        fmt::format(", times of {}", !times.on_gpu()                 ? "a CPU"
                                     : times.kineto().device.empty() ? "a GPU"
                                                                     : times.kineto().device);
  const auto roots = one_step(calls, path, settings.step, trace.notes);
  Dataflow flow = trace_dataflow(calls, phases(roots));
  join_updates(flow);
  const std::vector<RecordedOp*> dropped = drop_unread(flow);
  const StepState state = place_state(flow);
  link_forward(flow);
  name_ops(flow);
  order_updates(state);
  colocate(flow, state, settings.colocate);
  if (settings.optimizer == UpdateOrder::after_backward) update_after_backward(flow);
  trace.times_elsewhere = !times.known();
  trace.batch = settings.batch != 0 ? settings.batch : state.batch;
  if (settings.time == OpTime::call) times.add_overhead(flow);
  times.note(flow, recorded, trace);
  if (settings.step_time > Duration{}) times.fill(flow, settings.step_time, trace);
  note_state(state, flow, trace);
  note_dropped(dropped, flow, times, trace);
  note_count(trace.notes, calls.orphans,
             "{} calls have a parent that is not in the file: they belong to the enclosing call");
  if (settings.workspace == Workspace::call) {
    hold_parts(flow);
    if (times.known()) {
      share_in_place(flow);
      hold_until_freed(flow, times);
    }
  }
  trace.graph = build(flow, times, path, settings);
  return trace;
}

}  // namespace baechi::pytorch

namespace baechi {

bool looks_like_pytorch(std::string_view beginning) {
  return pytorch::looks_like_execution_trace(beginning);
}

Trace read_pytorch(TextFile& file, Options& options) {
  const std::string path =
      options.path("kineto",
                   "times: the file of torch.profiler's export_chrome_trace for a step of the same "
                   "run; a name with * for several steps, of which medians are used");
  pytorch::Settings settings;
  settings.colocate = read_enum(
      options, "colocate", pytorch::Colocate::readers,
      "ops colocated with the op that holds a parameter. readers: all its readers and its update; "
      "updates: its update; forward: as readers, and each backward op with its forward op");
  settings.optimizer =
      read_enum(options, "optimizer", pytorch::UpdateOrder::after_backward,
                "when updates run: after the backward pass, with all gradients live until the "
                "optimizer is done; or each as soon as its gradient is ready");
  settings.workspace =
      read_enum(options, "workspace", pytorch::Workspace::call,
                "temporary bytes of an op: what its outermost operator or autograd function holds "
                "beyond the graph's tensors; or what the op itself allocates");
  settings.time = read_enum(options, "time", pytorch::OpTime::call,
                            "time of an op on a CPU. call: includes the overhead of the enclosing "
                            "operator or autograd function; op: its call alone");
  settings.step =
      options.get("step", std::int64_t{0},
                  "number of the step (ProfilerStep#...), from 1; 0: the last complete step");
  settings.batch = options.get("batch", std::int64_t{0},
                               "samples per step; 0: the first dimension of the first input");
  settings.convolutions =
      options.get("convolutions", std::vector<std::string>{"tf32", "fp32"},
                  "without times: number format of fp32 convolutions on GPUs that have TF32; "
                  "PyTorch's default is torch.backends.cudnn.allow_tf32") == "tf32"
          ? Precision::tf32
          : Precision::fp32;
  settings.untimed =
      no_untimed_ops(options, "the Kineto trace of the same run, with all its steps");
  settings.step_time = options.get("step_time", Duration{},
                                   "time of a step without a profiler: on a CPU the time between "
                                   "ops is added to them, and the profiler's overhead subtracted");
  const auto found = path.empty() ? std::vector<std::string>{} : numbered_files(path);
  if (path.empty() && settings.step_time > Duration{})
    options.mistake("step_time", "needs the times of the ops, option kineto");
  if (!path.empty() && found.empty()) options.mistake("kineto", fmt::format("no file '{}'", path));
  options.finish();
  std::vector<std::unique_ptr<TextFile>> files;
  std::vector<TextFile*> kineto;
  for (const std::string& name : found)
    kineto.push_back(files.emplace_back(std::make_unique<TextFile>(name)).get());
  return pytorch::import_step(file, kineto, settings);
}

}  // namespace baechi
