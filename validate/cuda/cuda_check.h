/// Errors of CUDA calls, and driver functions by name. libcuda is never linked: without a driver
/// the program starts, and says what is missing.
#pragma once
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda_runtime_api.h>

#include <memory>
#include <stdexcept>
#include <string>

namespace baechi::validate::replay {

/// No usable GPU here, or it lacks a required feature: exit code 77.
struct Skip : std::runtime_error {
  using std::runtime_error::runtime_error;
};

struct CudaError : std::runtime_error {
  CudaError(cudaError_t error, const std::string& what) : std::runtime_error(what), code(error) {}
  cudaError_t code;
};

/// The GPU is beyond use for this process: exit code 3. Another process may go on.
struct GpuLost : std::runtime_error {
  using std::runtime_error::runtime_error;
};

inline void check(cudaError_t error, const char* call) {
  if (error == cudaSuccess) return;
  cudaGetLastError();  // else the next launch would report it again
  throw CudaError(
      error, std::string(call) + ": " + cudaGetErrorName(error) + ", " + cudaGetErrorString(error));
}

inline void check(CUresult error, const char* call) {
  if (error != CUDA_SUCCESS)
    throw CudaError(cudaErrorUnknown, std::string(call) + ": driver error " +
                                          std::to_string(static_cast<int>(error)));
}

#define REPLAY_CUDA(call) ::baechi::validate::replay::check((call), #call)

/// The version of a driver function in CUDA `version` (12050 is 12.5). Throws Skip if the driver
/// lacks it.
template <class Function>
Function driver_function(const char* name, unsigned version) {
  void* found = nullptr;
  cudaDriverEntryPointQueryResult result{};
  REPLAY_CUDA(cudaGetDriverEntryPointByVersion(name, &found, version, cudaEnableDefault, &result));
  if (found == nullptr || result != cudaDriverEntryPointSuccess)
    throw Skip(std::string("the driver has no ") + name);
  return reinterpret_cast<Function>(found);
}

/// After an error that cost one task: throws GpuLost if nothing works any more.
inline void ensure_usable(const std::string& after) {
  const cudaError_t error = cudaDeviceSynchronize();
  if (error == cudaSuccess) return;
  throw GpuLost("after " + after + ": cudaDeviceSynchronize: " + cudaGetErrorName(error));
}

template <auto Free>
struct FreeBy {
  template <class T>
  void operator()(T* pointer) const {
    Free(pointer);
  }
};

using DeviceMemory = std::unique_ptr<char, FreeBy<cudaFree>>;
using PinnedMemory = std::unique_ptr<char, FreeBy<cudaFreeHost>>;
using Event = std::unique_ptr<CUevent_st, FreeBy<cudaEventDestroy>>;
using Stream = std::unique_ptr<CUstream_st, FreeBy<cudaStreamDestroy>>;
using GraphExec = std::unique_ptr<CUgraphExec_st, FreeBy<cudaGraphExecDestroy>>;

inline DeviceMemory device_memory(std::size_t bytes) {
  void* pointer = nullptr;
  REPLAY_CUDA(cudaMalloc(&pointer, bytes));
  return DeviceMemory(static_cast<char*>(pointer));
}

/// Page-locked, and mapped: kernels may read and write it.
inline PinnedMemory pinned_memory(std::size_t bytes) {
  void* pointer = nullptr;
  REPLAY_CUDA(cudaHostAlloc(&pointer, bytes, cudaHostAllocMapped | cudaHostAllocPortable));
  return PinnedMemory(static_cast<char*>(pointer));
}

inline Event event(unsigned flags = cudaEventDisableTiming) {
  cudaEvent_t made = nullptr;
  REPLAY_CUDA(cudaEventCreateWithFlags(&made, flags));
  return Event(made);
}

/// Later work in `to` waits for all present work in `from`.
inline void wait_for(cudaStream_t to, cudaStream_t from, cudaEvent_t with) {
  REPLAY_CUDA(cudaEventRecord(with, from));
  REPLAY_CUDA(cudaStreamWaitEvent(to, with, 0));
}

}  // namespace baechi::validate::replay
