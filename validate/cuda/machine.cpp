#include "validate/cuda/machine.h"

#include <algorithm>
#include <cstdlib>
#include <limits>

#include "validate/cuda/kernels.h"

namespace baechi::validate::replay {

namespace {

std::string version_text(int version) {  // 13000 is 13.0
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

/// Tells one card from another without naming either: 16 bits of a hash (FNV-1a) of its UUID.
std::string card(const char (&uuid)[16]) {
  std::uint64_t hash = 14695981039346656037ULL;
  for (const char byte : uuid) hash = (hash ^ static_cast<unsigned char>(byte)) * 1099511628211ULL;
  return std::to_string(hash >> 48U);
}

}  // namespace

int open_gpus() {
  // 32 hardware queues, so that fewer streams share one; and all kernels loaded now: a lazy load
  // may wait for the GPU in the midst of a measurement, and behind a closed gate for ever; so may a
  // launch that blocks. Containers with PyTorch set these otherwise, so what is set does not count.
  setenv("CUDA_DEVICE_MAX_CONNECTIONS", "32", 1);  // NOLINT(concurrency-mt-unsafe): one thread
  setenv("CUDA_MODULE_LOADING", "EAGER", 1);       // NOLINT(concurrency-mt-unsafe)
  setenv("CUDA_LAUNCH_BLOCKING", "0", 1);          // NOLINT(concurrency-mt-unsafe)
  int gpus = 0;
  const cudaError_t error = cudaGetDeviceCount(&gpus);
  if (error != cudaSuccess || gpus == 0)
    throw Skip(std::string("no usable NVIDIA GPU: ") +
               (error != cudaSuccess ? cudaGetErrorString(error) : "the driver lists none"));
  return gpus;
}

std::vector<std::pair<std::string, std::string>> gpu_facts() {
  cudaDeviceProp gpu{};
  REPLAY_CUDA(cudaGetDeviceProperties(&gpu, 0));
  int driver = 0;
  int runtime = 0;
  REPLAY_CUDA(cudaDriverGetVersion(&driver));
  REPLAY_CUDA(cudaRuntimeGetVersion(&runtime));
  return {{"gpu", gpu.name},
          {"driver", version_text(driver)},
          {"cuda", version_text(runtime)},
          {"sms", std::to_string(gpu.multiProcessorCount)},
          {"compute_capability", std::to_string(gpu.major) + "." + std::to_string(gpu.minor)},
          {"memory_bytes", std::to_string(gpu.totalGlobalMem)},
          {"l2_bytes", std::to_string(gpu.l2CacheSize)},
          {"copy_engines", std::to_string(gpu.asyncEngineCount)},
          {"card", card(gpu.uuid.bytes)}};
}

Machine::Machine(const MachineOptions& options) : options_(options) {
  const int gpus = open_gpus();
  if (options_.gpu_per_device && gpus < options_.devices)
    throw Skip("peer copies among " + std::to_string(options_.devices) +
               " devices need as many GPUs; " + "there are " + std::to_string(gpus));
  devices_.resize(static_cast<std::size_t>(options_.devices));
  gate_ = pinned_memory(2 * sizeof(unsigned));
  make_parts();
  for (Device& device : devices_) {
    enter(device);
    make_queues(device);
    make_memory(device);
    if (flushed_.empty() || options_.gpu_per_device)
      flushed_.push_back(device_memory(flushed_bytes_));
  }
  ask_for_events();
  look_at_sms();
  enter(devices_.front());
  const DeviceMemory tick = device_memory(sizeof(unsigned long long));
  launch_tick(nullptr, reinterpret_cast<unsigned long long*>(tick.get()), 100000);
  REPLAY_CUDA(cudaMemcpy(&timer_tick_, tick.get(), sizeof timer_tick_, cudaMemcpyDeviceToHost));
  if (!options_.gpu_per_device) return;
  const std::int64_t first = clock_against_host(devices_.front());
  for (Device& device : devices_) device.clock_ahead = clock_against_host(device) - first;
}

cudaStream_t Machine::queue(const Task& task) {
  const Device& owner = device(task.owner());
  const auto& queues = task.transfer ? owner.transfer_queues : owner.lanes;
  return queues[static_cast<std::size_t>(task.queue)].get();
}

void Machine::enter(const Device& device) const {
  REPLAY_CUDA(cudaSetDevice(device.gpu));
}

void Machine::wait() const {
  for (const Device& device : devices_) {
    enter(device);
    REPLAY_CUDA(cudaDeviceSynchronize());
    if (!options_.gpu_per_device) return;
  }
}

void Machine::flush_caches() const {
  for (std::size_t gpu = 0; gpu < flushed_.size(); ++gpu) {
    enter(devices_[gpu]);
    REPLAY_CUDA(cudaMemset(flushed_[gpu].get(), 0, flushed_bytes_));
  }
}

void Machine::make_parts() {
  cudaDeviceProp gpu{};
  REPLAY_CUDA(cudaGetDeviceProperties(&gpu, 0));
  flushed_bytes_ = 2 * static_cast<std::size_t>(std::max(gpu.l2CacheSize, 32 << 20));
  const auto sms = static_cast<unsigned>(gpu.multiProcessorCount);
  if (options_.gpu_per_device) {
    for (std::size_t i = 0; i < devices_.size(); ++i) {
      devices_[i].gpu = static_cast<int>(i);
      devices_[i].compute.sms = devices_[i].link.sms = sms;
    }
    return;
  }
  REPLAY_CUDA(cudaSetDevice(0));
  REPLAY_CUDA(cudaFree(nullptr));  // green contexts need the GPU's primary context
  split_ = {.total = sms};
  const std::vector<Part> parts = options_.green_contexts
                                      ? green_partitions(options_.devices, split_)
                                      : capped_partitions(options_.devices, sms);
  for (std::size_t i = 0; i < devices_.size(); ++i) {
    devices_[i].compute = parts[2 * i];
    devices_[i].link = parts[2 * i + 1];
  }
}

void Machine::make_queues(Device& device) const {
  for (int i = 0; i < options_.lanes; ++i) device.lanes.push_back(make_stream(device.compute));
  for (int i = 0; i < options_.queues; ++i)
    device.transfer_queues.push_back(make_stream(device.link));
}

void Machine::make_memory(Device& device) const {
  const auto scratch = static_cast<std::size_t>(options_.scratch);
  device.inputs = device_memory(scratch);
  device.outputs = device_memory(scratch);
  device.pinned = pinned_memory(static_cast<std::size_t>(options_.pinned));
  // Never time on zeros: they cost less power, so clocks differ.
  for (char* memory : {device.inputs.get(), device.outputs.get()})
    launch_fill(nullptr, memory, options_.scratch / 2, 7);
  const auto sample = std::min(options_.scratch, options_.pinned);
  REPLAY_CUDA(cudaMemcpy(device.pinned.get(), device.inputs.get(), static_cast<std::size_t>(sample),
                         cudaMemcpyDeviceToHost));
}

/// Whether a green context's stream takes an event of the GPU's own context.
void Machine::ask_for_events() {
  const Part& part = devices_.front().compute;
  if (part.context == nullptr) return;
  const Event ordinary = event();
  const cudaStream_t stream = devices_.front().lanes.front().get();
  const cudaError_t error = cudaEventRecord(ordinary.get(), stream);
  if (error == cudaSuccess) return;
  cudaGetLastError();
  constexpr int of_the_gpu = 700;  // from here on errors are not of the call, whichever it was
  if (static_cast<int>(error) >= of_the_gpu) check(error, "cudaEventRecord");
  events_of_parts_ = true;
  const Event own = event_of(part);
  REPLAY_CUDA(cudaEventRecord(own.get(), stream));
}

void Machine::need_cublas(Device& device) {
  if (device.cublas != nullptr) return;
  enter(device);
  device.cublas = std::make_unique<Cublas>(device.compute.sms);
  look_at_sms();
}

Event Machine::event_for(const Task& task) const {
  const Device& owner = device(task.owner());
  enter(owner);
  return events_of_parts_ ? event_of(task.transfer ? owner.link : owner.compute) : event();
}

/// Fills every part at once with blocks that stay for a while, and looks where they ran.
void Machine::look_at_sms() {
  if (options_.gpu_per_device || !options_.green_contexts) return;
  std::vector<Stamp> stamps(2 * devices_.size());
  const std::size_t bytes = stamps.size() * sizeof(Stamp);
  const DeviceMemory memory = device_memory(bytes);
  REPLAY_CUDA(cudaMemcpy(memory.get(), stamps.data(), bytes, cudaMemcpyHostToDevice));
  auto* next = reinterpret_cast<Stamp*>(memory.get());
  for (const Device& device : devices_) {
    launch_occupy(device.lanes.front().get(), 4 * device.compute.sms, 20000, next++);
    launch_occupy(device.transfer_queues.front().get(), 4 * device.link.sms, 20000, next++);
  }
  REPLAY_CUDA(cudaDeviceSynchronize());
  REPLAY_CUDA(cudaMemcpy(stamps.data(), memory.get(), bytes, cudaMemcpyDeviceToHost));
  disjoint_ = complete_ = true;
  for (std::size_t i = 0; i < stamps.size(); ++i) {
    Part& part = i % 2 == 0 ? devices_[i / 2].compute : devices_[i / 2].link;
    part.seen = stamps[i].sms;
    complete_ = complete_ && count(part.seen) == static_cast<int>(part.sms);
    for (std::size_t j = 0; j < i; ++j)
      disjoint_ = disjoint_ && !overlap(stamps[i].sms, stamps[j].sms);
  }
}

/// The GPU's timer less the host's clock, from the quickest of many questions and answers.
std::int64_t Machine::clock_against_host(Device& device) const {
  constexpr unsigned questions = 200;
  enter(device);
  const PinnedMemory shared = pinned_memory(64);
  auto* question = reinterpret_cast<volatile unsigned*>(shared.get());
  auto* answer = question + 1;
  auto* time = reinterpret_cast<volatile unsigned long long*>(shared.get() + 8);
  *question = 0;
  *answer = 0;
  launch_clock(device.lanes.front().get(), const_cast<const unsigned*>(question),
               const_cast<unsigned*>(answer), const_cast<unsigned long long*>(time), questions);
  std::int64_t quickest = std::numeric_limits<std::int64_t>::max();
  std::int64_t ahead = 0;
  for (unsigned i = 1; i <= questions; ++i) {
    const std::int64_t asked = host_ns();
    *question = i;
    while (*answer != i) {
      if (host_ns() - asked > 1000000000) throw CudaError(cudaErrorTimeout, "a GPU tells no time");
    }
    const std::int64_t answered = host_ns();
    if (answered - asked >= quickest) continue;
    quickest = answered - asked;
    ahead = static_cast<std::int64_t>(*time) - (asked + quickest / 2);
  }
  REPLAY_CUDA(cudaDeviceSynchronize());
  return ahead;
}

}  // namespace baechi::validate::replay
