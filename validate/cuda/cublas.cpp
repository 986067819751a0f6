#include "validate/cuda/cublas.h"

#include <dlfcn.h>
#include <library_types.h>

#include <utility>

namespace baechi::validate::replay {

namespace {

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

}  // namespace

std::string Cublas::library() {
  return open_library().second;
}

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

}  // namespace baechi::validate::replay
