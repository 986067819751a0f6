/// The stand-in's cuBLAS, a library that the harness finds by LD_LIBRARY_PATH.
#include <cuda_runtime_api.h>

#include <cstddef>

extern "C" {
// Defined in the program that loads this library.
void standin_module_loaded();
int standin_gemm(cudaStream_t stream, double flops);

struct Handle {
  cudaStream_t stream = nullptr;
};

int cublasCreate_v2(void** handle) {
  standin_module_loaded();
  *handle = new Handle;
  return 0;
}
int cublasDestroy_v2(void* handle) {
  delete static_cast<Handle*>(handle);
  return 0;
}
int cublasSetSmCountTarget(void*, int) { return 0; }
int cublasSetStream_v2(void* handle, cudaStream_t stream) {
  static_cast<Handle*>(handle)->stream = stream;
  return 0;
}
int cublasSetWorkspace_v2(void*, void*, std::size_t) { return 0; }
int cublasGemmEx(void* handle, int, int, int m, int n, int k, const void*, const void*, int, int,
                 const void*, int, int, const void*, void*, int, int, int, int) {
  return standin_gemm(static_cast<Handle*>(handle)->stream, 2.0 * m * n * k);
}
}
