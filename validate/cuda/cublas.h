/// cuBLAS where the machine has it: it is looked for when the program runs, never linked.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <string>

#include "validate/cuda/cuda_check.h"

namespace baechi::validate::replay {

/// A handle with a workspace of its own, for one device's partition.
class Cublas {
 public:
  /// Throws Skip if there is no library (`libcublas.so.13` or `.12`, where the loader looks).
  explicit Cublas(unsigned sms);
  ~Cublas() { destroy_(handle_); }
  Cublas(const Cublas&) = delete;
  Cublas& operator=(const Cublas&) = delete;

  /// C [m, n] = A [m, k] B [k, n], half in, float out. Can be captured.
  void gemm(cudaStream_t stream, float* c, const void* a, const void* b, std::int64_t m,
            std::int64_t n, std::int64_t k);

  static std::string library();  ///< the file that would be used; empty: none

 private:
  // As in cublas_api.h, which need not be there to build.
  using Status = int;
  void* handle_ = nullptr;
  DeviceMemory workspace_;
  Status (*destroy_)(void* handle);
  Status (*set_stream_)(void* handle, cudaStream_t stream);
  Status (*set_workspace_)(void* handle, void* memory, std::size_t bytes);
  Status (*gemm_ex_)(void* handle, int transpose_a, int transpose_b, int m, int n, int k,
                     const void* alpha, const void* a, int type_a, int lda, const void* b,
                     int type_b, int ldb, const void* beta, void* c, int type_c, int ldc,
                     int compute, int algorithm);
};

}  // namespace baechi::validate::replay
