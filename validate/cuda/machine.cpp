#include "validate/cuda/machine.h"

#include <dlfcn.h>
#include <library_types.h>

#include <algorithm>
#include <bit>

namespace baechi::validate::replay {

namespace {

constexpr unsigned smallest_group =
    8;  // SMs; compute capability 9.0 makes no smaller one by default

std::vector<CUdevResource> groups_of(const CUdevResource& all, Split& split) {
  const auto by_count =
      driver_function<PFN_cuDevSmResourceSplitByCount_v12040>("cuDevSmResourceSplitByCount", 12040);
  unsigned groups = 0;
  REPLAY_CUDA(by_count(nullptr, &groups, &all, nullptr, 0, smallest_group));
  std::vector<CUdevResource> made(groups);
  CUdevResource rest{};
  REPLAY_CUDA(by_count(made.data(), &groups, &all, &rest, 0, smallest_group));
  made.resize(groups);
  split = {.total = all.sm.smCount,
           .minimum = all.sm.minSmPartitionSize,
           .alignment = all.sm.smCoscheduledAlignment,
           .groups = groups,
           .group_sms = groups == 0 ? 0 : made.front().sm.smCount,
           .left_over = rest.type == CU_DEV_RESOURCE_TYPE_SM ? rest.sm.smCount : 0};
  return made;
}

/// A context of `count` groups, with the number of SMs that the driver reads back.
Part part_of(CUdevResource* groups, unsigned count, CUdevice device) {
  const auto describe =
      driver_function<PFN_cuDevResourceGenerateDesc_v12040>("cuDevResourceGenerateDesc", 12040);
  const auto create = driver_function<PFN_cuGreenCtxCreate_v12040>("cuGreenCtxCreate", 12040);
  const auto read_back =
      driver_function<PFN_cuGreenCtxGetDevResource_v12040>("cuGreenCtxGetDevResource", 12040);
  CUdevResourceDesc description = nullptr;
  REPLAY_CUDA(describe(&description, groups, count));
  Part part;
  REPLAY_CUDA(create(&part.context, description, device, CU_GREEN_CTX_DEFAULT_STREAM));
  CUdevResource got{};
  REPLAY_CUDA(read_back(part.context, &got, CU_DEV_RESOURCE_TYPE_SM));
  part.sms = got.sm.smCount;
  return part;
}

constexpr int no_transpose = 0;       // CUBLAS_OP_N
constexpr int compute_in_float = 68;  // CUBLAS_COMPUTE_32F
constexpr int default_algorithm = -1;
constexpr std::size_t workspace_bytes = 32 << 20;

std::pair<void*, std::string> open_library() {
  for (const char* name : {"libcublas.so.13", "libcublas.so.12"})
    if (void* const library = dlopen(name, RTLD_NOW | RTLD_LOCAL)) return {library, name};
  return {nullptr, ""};
}

template <class Function>
void look_up(Function& function, const char* name) {
  void* const library = open_library().first;
  void* const found = library == nullptr ? nullptr : dlsym(library, name);
  if (found == nullptr) throw Skip(std::string("no cuBLAS with ") + name + " on this machine");
  function = reinterpret_cast<Function>(found);
}

void ensure(int status, const char* call) {
  if (status != 0)
    throw CudaError(cudaErrorUnknown, std::string(call) + ": status " + std::to_string(status));
}

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

std::string Split::text() const {
  return std::to_string(total) + " SMs, smallest part " + std::to_string(minimum) + ", alignment " +
         std::to_string(alignment) + ": " + std::to_string(groups) + " groups of " +
         std::to_string(group_sms) + ", " + std::to_string(left_over) + " left over";
}

std::vector<Part> green_partitions(int devices, Split& split) {
  const auto resource =
      driver_function<PFN_cuDeviceGetDevResource_v12040>("cuDeviceGetDevResource", 12040);
  int gpu = 0;
  REPLAY_CUDA(cudaGetDevice(&gpu));
  CUdevResource all{};
  REPLAY_CUDA(resource(gpu, &all, CU_DEV_RESOURCE_TYPE_SM));
  std::vector<CUdevResource> groups = groups_of(all, split);
  const unsigned each = split.groups / static_cast<unsigned>(devices);
  if (each < 2)
    throw Skip(std::to_string(devices) + " devices need 2 groups of SMs each; " + split.text());
  std::vector<Part> parts;
  CUdevResource* next = groups.data();
  for (int device = 0; device < devices; ++device) {
    for (const unsigned size : {each - 1, 1U}) {
      parts.push_back(part_of(next, size, gpu));
      next += size;
    }
  }
  return parts;
}

std::vector<Part> capped_partitions(int devices, unsigned sms) {
  const unsigned each = sms / static_cast<unsigned>(devices);
  const unsigned link = std::clamp(each / 4, 1U, smallest_group);
  std::vector<Part> parts;
  for (int device = 0; device < devices; ++device) {
    parts.push_back({.sms = std::max(1U, each - link)});
    parts.push_back({.sms = link});
  }
  return parts;
}

Stream make_stream(const Part& part) {
  CUstream made = nullptr;
  if (part.context == nullptr) {
    REPLAY_CUDA(cudaStreamCreateWithFlags(&made, cudaStreamNonBlocking));
  } else {
    const auto create =
        driver_function<PFN_cuGreenCtxStreamCreate_v12050>("cuGreenCtxStreamCreate", 12050);
    REPLAY_CUDA(create(&made, part.context, CU_STREAM_NON_BLOCKING, 0));
  }
  return Stream(made);
}

Event event_of(const Part& part) {
  const auto context_of = driver_function<PFN_cuCtxFromGreenCtx_v12040>("cuCtxFromGreenCtx", 12040);
  const auto push = driver_function<PFN_cuCtxPushCurrent_v4000>("cuCtxPushCurrent", 4000);
  const auto pop = driver_function<PFN_cuCtxPopCurrent_v4000>("cuCtxPopCurrent", 4000);
  CUcontext context = nullptr;
  REPLAY_CUDA(context_of(&context, part.context));
  REPLAY_CUDA(push(context));
  cudaEvent_t made = nullptr;
  const cudaError_t error = cudaEventCreateWithFlags(&made, cudaEventDisableTiming);
  pop(&context);
  check(error, "cudaEventCreateWithFlags");
  return Event(made);
}

int count(const SmSet& set) {
  int bits = 0;
  for (const unsigned long long word : set) bits += std::popcount(word);
  return bits;
}

bool within(const SmSet& inner, const SmSet& outer) {
  for (std::size_t i = 0; i < inner.size(); ++i)
    if ((inner[i] & ~outer[i]) != 0) return false;
  return true;
}

bool overlap(const SmSet& a, const SmSet& b) {
  for (std::size_t i = 0; i < a.size(); ++i)
    if ((a[i] & b[i]) != 0) return true;
  return false;
}

ClockRate::ClockRate() {
  void* const library = dlopen("libnvidia-ml.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) return;
  const auto init = reinterpret_cast<int (*)()>(dlsym(library, "nvmlInit_v2"));
  const auto by_index =
      reinterpret_cast<int (*)(unsigned, void**)>(dlsym(library, "nvmlDeviceGetHandleByIndex_v2"));
  const auto info =
      reinterpret_cast<decltype(clock_info_)>(dlsym(library, "nvmlDeviceGetClockInfo"));
  if (init == nullptr || by_index == nullptr || info == nullptr) return;
  if (init() == 0 && by_index(0, &device_) == 0) clock_info_ = info;
}

void ClockRate::sample() {
  constexpr int sm_clock = 1;  // NVML_CLOCK_SM
  unsigned mhz = 0;
  if (clock_info_ == nullptr || clock_info_(device_, sm_clock, &mhz) != 0 || mhz == 0) return;
  lowest_ = lowest_ == 0 ? mhz : std::min(lowest_, mhz);
  highest_ = std::max(highest_, mhz);
}

std::string Cublas::library() { return open_library().second; }

Cublas::Cublas(unsigned sms) : workspace_(device_memory(workspace_bytes)) {
  int (*create)(void**) = nullptr;
  int (*set_sm_count)(void*, int) = nullptr;
  look_up(create, "cublasCreate_v2");
  look_up(set_sm_count, "cublasSetSmCountTarget");
  look_up(destroy_, "cublasDestroy_v2");
  look_up(set_stream_, "cublasSetStream_v2");
  look_up(set_workspace_, "cublasSetWorkspace_v2");
  look_up(gemm_ex_, "cublasGemmEx");
  ensure(create(&handle_), "cublasCreate");
  ensure(set_sm_count(handle_, static_cast<int>(sms)), "cublasSetSmCountTarget");
}

void Cublas::gemm(cudaStream_t stream, float* c, const void* a, const void* b, std::int64_t m,
                  std::int64_t n, std::int64_t k) {
  const float one = 1;
  const float zero = 0;
  const auto rows = static_cast<int>(m);
  const auto columns = static_cast<int>(n);
  const auto depth = static_cast<int>(k);
  ensure(set_stream_(handle_, stream), "cublasSetStream");
  // SetStream goes back to the library's own workspace, so ours is set after it.
  ensure(set_workspace_(handle_, workspace_.get(), workspace_bytes), "cublasSetWorkspace");
  // cuBLAS goes column by column: C' = B' A'.
  ensure(gemm_ex_(handle_, no_transpose, no_transpose, columns, rows, depth, &one, b, CUDA_R_16F,
                  columns, a, CUDA_R_16F, depth, &zero, c, CUDA_R_32F, columns, compute_in_float,
                  default_algorithm),
         "cublasGemmEx");
}

void open_gpu() {
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
  open_gpu();
  devices_.resize(static_cast<std::size_t>(options_.devices));
  gate_ = pinned_memory(2 * sizeof(unsigned));
  make_parts();
  for (Device& device : devices_) {
    make_queues(device);
    make_memory(device);
  }
  flushed_ = device_memory(flushed_bytes_);
  ask_for_events();
  look_at_sms();
  const DeviceMemory tick = device_memory(sizeof(unsigned long long));
  launch_tick(nullptr, reinterpret_cast<unsigned long long*>(tick.get()), 100000);
  REPLAY_CUDA(cudaMemcpy(&timer_tick_, tick.get(), sizeof timer_tick_, cudaMemcpyDeviceToHost));
}

cudaStream_t Machine::queue(const Task& task) {
  const Device& owner = device(task.owner());
  if (!task.transfer) return owner.compute_queue.get();
  return owner.transfer_queues[static_cast<std::size_t>(task.queue)].get();
}

void Machine::flush_cache() const { REPLAY_CUDA(cudaMemset(flushed_.get(), 0, flushed_bytes_)); }

void Machine::make_parts() {
  cudaDeviceProp gpu{};
  REPLAY_CUDA(cudaGetDeviceProperties(&gpu, 0));
  flushed_bytes_ = 2 * static_cast<std::size_t>(std::max(gpu.l2CacheSize, 32 << 20));
  const auto sms = static_cast<unsigned>(gpu.multiProcessorCount);
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
  device.compute_queue = make_stream(device.compute);
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
  const cudaStream_t stream = devices_.front().compute_queue.get();
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
  device.cublas = std::make_unique<Cublas>(device.compute.sms);
  look_at_sms();
}

Event Machine::event_for(const Task& task) const {
  const Device& owner = device(task.owner());
  return events_of_parts_ ? event_of(task.transfer ? owner.link : owner.compute) : event();
}

/// Fills every part at once with blocks that stay for a while, and looks where they ran.
void Machine::look_at_sms() {
  if (!options_.green_contexts) return;
  std::vector<Stamp> stamps(2 * devices_.size());
  const std::size_t bytes = stamps.size() * sizeof(Stamp);
  const DeviceMemory memory = device_memory(bytes);
  REPLAY_CUDA(cudaMemcpy(memory.get(), stamps.data(), bytes, cudaMemcpyHostToDevice));
  auto* next = reinterpret_cast<Stamp*>(memory.get());
  for (const Device& device : devices_) {
    launch_occupy(device.compute_queue.get(), 4 * device.compute.sms, 20000, next++);
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

}  // namespace baechi::validate::replay
