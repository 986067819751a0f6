#include "validate/cuda/step.h"

#include <algorithm>
#include <map>

namespace baechi::validate::replay {

namespace {

/// Longer than any submission should take; a gate that opens by itself is reported.
std::int64_t gate_limit(const ReplayPlan& plan) {
  return 20'000'000 + 50'000 * static_cast<std::int64_t>(plan.tasks.size());
}

std::int64_t scratch_of(const Task& task) {
  const Body& body = task.body;
  if (task.transfer) return task.bytes;
  switch (body.kind) {
    case BodyKind::spin:
      return 0;
    case BodyKind::gemm:
      return 4 * body.args[0] * body.args[0];  // A and B in half, C in float
    case BodyKind::ew:
      return body.args[0] / 2;
    case BodyKind::cublas:
      return std::max(2 * (body.args[0] * body.args[2] + body.args[2] * body.args[1]),
                      4 * body.args[0] * body.args[1]);
  }
  return 0;
}

}  // namespace

const char* name_of(StepResult::Verdict verdict) {
  static constexpr const char* names[]{"ok", "failed"};
  return names[static_cast<int>(verdict)];
}

std::int64_t scratch_of(const ReplayPlan& plan) {
  std::int64_t most = 0;
  for (const Task& task : plan.tasks) {
    if (!task.transfer || plan.way != Way::link) most = std::max(most, scratch_of(task));
  }
  return most;
}

std::int64_t pinned_of(const ReplayPlan& plan) {
  std::int64_t most = 0;
  for (const Task& task : plan.tasks)
    if (task.transfer && plan.way == Way::host) most = std::max(most, task.bytes);
  return most;
}

Step::Step(Machine& machine, const ReplayPlan& plan) : machine_(machine), plan_(plan) {
  if (plan.devices > machine.options().devices || plan.queues > machine.options().queues)
    throw CudaError(cudaErrorInvalidValue, "the plan has more devices or queues than the machine");
  lay_out();
  find_waits();
  std::vector<bool> used(static_cast<std::size_t>(plan.num_queues()));
  for (const Task& task : plan.tasks) {
    if (used[static_cast<std::size_t>(plan.queue_of(task))]) continue;
    used[static_cast<std::size_t>(plan.queue_of(task))] = true;
    queues_.push_back({machine.queue(task), machine.event_for(task)});
  }
  stamps_.resize(plan.tasks.size());
  gpu_stamps_ = device_memory(std::max<std::size_t>(1, stamps_.size()) * sizeof(Stamp));
  if (plan.mode == SubmitMode::graph) capture();
}

/// Offset of `bytes` in a device's scratch memory, from `next` on or from its start.
std::int64_t Step::slice(std::int64_t bytes, std::int64_t& next) const {
  const std::int64_t size = machine_.options().scratch;
  if (bytes > size)
    throw CudaError(cudaErrorMemoryAllocation, "a task wants " + std::to_string(bytes) +
                                                   " bytes of scratch, there are " +
                                                   std::to_string(size));
  if (next + bytes > size) next = 0;
  const std::int64_t begin = next;
  next += (bytes + 255) / 256 * 256;
  return begin;
}

void Step::lay_out() {
  std::vector<std::int64_t> next(static_cast<std::size_t>(plan_.devices), 0);
  std::vector<int> staged(plan_.tasks.size(), -1);  // whose pinned memory a copy to the host fills
  for (std::size_t i = 0; i < plan_.tasks.size(); ++i) {
    const Task& task = plan_.tasks[i];
    if (!task.transfer) {
      places_.push_back(place_of_op(task, next[static_cast<std::size_t>(task.owner())]));
      continue;
    }
    int source = task.to;  // of a copy from the host that comes after none to the host
    for (const int other : task.after)
      if (const int owner = staged[static_cast<std::size_t>(other)]; owner >= 0) source = owner;
    if (task.to == Task::host) staged[i] = task.device;
    places_.push_back(place_of_transfer(task, source, next));
  }
}

Step::Place Step::place_of_op(const Task& task, std::int64_t& next) {
  Device& device = machine_.device(task.owner());
  if (task.body.kind == BodyKind::cublas) machine_.need_cublas(device);
  const std::int64_t bytes = scratch_of(task);
  const std::int64_t offset = slice(bytes, next);
  return {device.inputs.get() + offset, device.outputs.get() + offset, bytes};
}

Step::Place Step::place_of_transfer(const Task& task, int source, std::vector<std::int64_t>& next) {
  const MachineOptions& options = machine_.options();
  Place place{.bytes = plan_.way == Way::link ? std::min(task.bytes, options.scratch) : task.bytes};
  if (plan_.way == Way::host && place.bytes > options.pinned)
    throw CudaError(cudaErrorMemoryAllocation, "a copy is larger than the pinned memory");
  const auto scratch = [&](int device) {
    return slice(place.bytes, next[static_cast<std::size_t>(device)]);
  };
  place.from = task.device == Task::host
                   ? machine_.device(source).pinned.get()
                   : machine_.device(task.device).inputs.get() + scratch(task.device);
  place.to = task.to == Task::host ? machine_.device(task.device).pinned.get()
                                   : machine_.device(task.to).outputs.get() + scratch(task.to);
  return place;
}

/// A queue is first in, first out: of what a task comes after, it waits for the last in each other
/// queue, and not if its queue has waited for that or a later one before.
void Step::find_waits() {
  waits_.resize(plan_.tasks.size());
  events_.resize(plan_.tasks.size());
  std::map<std::pair<std::size_t, std::size_t>, int>
      seen;  // (queue, other queue) -> last task waited for
  for (std::size_t i = 0; i < plan_.tasks.size(); ++i) {
    const std::size_t queue = plan_.queue_of(plan_.tasks[i]);
    std::map<std::size_t, int> last;
    for (const int other : plan_.tasks[i].after)
      last[plan_.queue_of(plan_.tasks[static_cast<std::size_t>(other)])] = other;
    for (const auto& [of, task] : last) {
      const auto [known, is_new] = seen.try_emplace({queue, of}, -1);
      if (of == queue || task <= known->second) continue;
      known->second = task;
      waits_[i].push_back(task);
      Event& waited = events_[static_cast<std::size_t>(task)];
      if (waited == nullptr)
        waited = machine_.event_for(plan_.tasks[static_cast<std::size_t>(task)]);
    }
  }
}

Stamp* Step::stamp(std::size_t task) { return reinterpret_cast<Stamp*>(gpu_stamps_.get()) + task; }

void Step::capture() {
  if (queues_.empty()) return;
  const cudaStream_t first = queues_.front().stream;
  cudaGraph_t graph = nullptr;
  REPLAY_CUDA(cudaStreamBeginCapture(first, cudaStreamCaptureModeRelaxed));
  try {
    fork();
    submit_all();
    join();
  } catch (...) {
    cudaStreamEndCapture(first, &graph);
    cudaGetLastError();
    throw;
  }
  REPLAY_CUDA(cudaStreamEndCapture(first, &graph));
  cudaGraphExec_t made = nullptr;
  const cudaError_t error = cudaGraphInstantiate(&made, graph, 0);
  cudaGraphDestroy(graph);
  check(error, "cudaGraphInstantiate");
  graph_.reset(made);
  REPLAY_CUDA(cudaGraphUpload(made, first));
  REPLAY_CUDA(cudaStreamSynchronize(first));
}

void Step::fork() {
  const Queue& first = queues_.front();
  unsigned* const gate = machine_.gate();
  launch_gate(first.stream, gate, gate + 1, gate_limit(plan_));
  REPLAY_CUDA(cudaEventRecord(first.event.get(), first.stream));
  for (std::size_t i = 1; i < queues_.size(); ++i)
    REPLAY_CUDA(cudaStreamWaitEvent(queues_[i].stream, first.event.get(), 0));
}

void Step::join() {
  for (std::size_t i = 1; i < queues_.size(); ++i)
    wait_for(queues_.front().stream, queues_[i].stream, queues_[i].event.get());
}

/// When the first was submitted, by the host's clock.
std::int64_t Step::submit_all() {
  std::int64_t first = host_ns();
  for (std::size_t i = 0; i < plan_.tasks.size(); ++i) {
    const cudaStream_t stream = machine_.queue(plan_.tasks[i]);
    for (const int other : waits_[i])
      REPLAY_CUDA(cudaStreamWaitEvent(stream, events_[static_cast<std::size_t>(other)].get(), 0));
    launch(i);
    if (events_[i] != nullptr) REPLAY_CUDA(cudaEventRecord(events_[i].get(), stream));
    if (i == 0) first = host_ns();
  }
  return first;
}

void Step::launch(std::size_t i) {
  const Task& task = plan_.tasks[i];
  Device& device = machine_.device(task.owner());
  const cudaStream_t stream = machine_.queue(task);
  if (task.transfer)
    launch_transfer(task, device, stream, places_[i], stamp(i));
  else
    launch_op(task, device, stream, places_[i], stamp(i));
}

void Step::launch_op(const Task& task, Device& device, cudaStream_t stream, const Place& place,
                     Stamp* stamp) {
  const Body& body = task.body;
  auto* const result = reinterpret_cast<float*>(place.to);
  switch (body.kind) {
    case BodyKind::spin:
      return launch_spin(stream, body.args[0], stamp);
    case BodyKind::ew:
      return launch_ew(stream, device.compute.sms, place.to, place.from, body.args[0], stamp);
    case BodyKind::gemm:
      return launch_gemm(stream, device.compute.sms, result, place.from,
                         place.from + 2 * body.args[0] * body.args[0],
                         static_cast<int>(body.args[0]), stamp);
    case BodyKind::cublas:
      launch_begin(stream, stamp);
      device.cublas->gemm(stream, result, place.from, place.from + 2 * body.args[0] * body.args[2],
                          body.args[0], body.args[1], body.args[2]);
      launch_end(stream, stamp);
  }
}

void Step::launch_transfer(const Task& task, Device& device, cudaStream_t stream,
                           const Place& place, Stamp* stamp) {
  const auto bytes = static_cast<std::size_t>(place.bytes);
  switch (plan_.way) {
    case Way::link:
      return launch_link(stream, device.link.sms, place.to, place.from, place.bytes,
                         task.length.count(), stamp);
    case Way::host:
      REPLAY_CUDA(cudaMemcpyAsync(
          place.to, place.from, bytes,
          task.to == Task::host ? cudaMemcpyDeviceToHost : cudaMemcpyHostToDevice, stream));
  }
}

void Step::reset_stamps() {
  std::ranges::fill(stamps_, Stamp{});
  REPLAY_CUDA(cudaMemcpy(gpu_stamps_.get(), stamps_.data(), stamps_.size() * sizeof(Stamp),
                         cudaMemcpyHostToDevice));
  machine_.flush_cache();
  REPLAY_CUDA(cudaDeviceSynchronize());
}

void Step::submit(StepResult& result) {
  auto* const gate = static_cast<volatile unsigned*>(machine_.gate());
  gate[0] = 0;
  gate[1] = 0;
  const std::int64_t begin = host_ns();
  std::int64_t first = begin;
  if (graph_ != nullptr) {
    REPLAY_CUDA(cudaGraphLaunch(graph_.get(), queues_.front().stream));
  } else {
    if (!queues_.empty()) fork();
    first = submit_all();
  }
  const std::int64_t end = host_ns();
  gate[0] = 1;
  result.first_ns = first - begin;
  result.submit_ns = end - begin;
}

StepResult Step::run() {
  StepResult result;
  reset_stamps();
  try {
    submit(result);
  } catch (...) {
    static_cast<volatile unsigned*>(machine_.gate())[0] = 1;
    throw;
  }
  REPLAY_CUDA(cudaDeviceSynchronize());
  if (static_cast<volatile unsigned*>(machine_.gate())[1] != 0) {
    result.verdict = StepResult::Verdict::failed;
    result.why = "the gate opened before all was submitted";
  }
  read_stamps(result);
  return result;
}

void Step::read_stamps(StepResult& result) {
  result.times.assign(stamps_.size(), {});
  std::string wrong;
  REPLAY_CUDA(cudaMemcpy(stamps_.data(), gpu_stamps_.get(), stamps_.size() * sizeof(Stamp),
                         cudaMemcpyDeviceToHost));
  for (std::size_t i = 0; i < stamps_.size(); ++i) {
    const Task& task = plan_.tasks[i];
    const Device& device = machine_.device(task.owner());
    if (task.transfer && plan_.way != Way::link) continue;
    const Stamp& stamp = stamps_[i];
    const SmSet& part = task.transfer ? device.link.seen : device.compute.seen;
    if (stamp.end == 0)
      wrong = "task " + std::to_string(i) + " did not run";
    else if (machine_.disjoint() && machine_.complete() && !within(stamp.sms, part))
      wrong = "task " + std::to_string(i) + " ran outside its part of the GPU";
    result.times[i] = {static_cast<std::int64_t>(stamp.begin),
                       static_cast<std::int64_t>(stamp.end)};
  }
  start_at_zero(result.times);
  if (wrong.empty()) wrong = disorder(plan_, result.times, machine_.timer_tick());
  result.peak = peak_bytes(plan_, result.times);
  if (wrong.empty()) return;
  result.verdict = StepResult::Verdict::failed;
  result.why += (result.why.empty() ? "" : "; ") + wrong;
}

}  // namespace baechi::validate::replay
