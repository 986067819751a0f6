#include "validate/cuda/kernel_check.h"

#include <cuda_fp16.h>

#include <cmath>
#include <cstring>
#include <vector>

#include "validate/cuda/cuda_check.h"
#include "validate/cuda/kernels.h"

namespace baechi::validate::replay {

namespace {

template <class T>
std::vector<T> from_device(const DeviceMemory& memory, std::size_t count) {
  std::vector<T> copy(count);
  REPLAY_CUDA(cudaMemcpy(copy.data(), memory.get(), count * sizeof(T), cudaMemcpyDeviceToHost));
  return copy;
}

DeviceMemory random_halves(std::size_t count, unsigned seed) {
  DeviceMemory memory = device_memory(2 * count);
  launch_fill(nullptr, memory.get(), static_cast<std::int64_t>(count), seed);
  return memory;
}

/// Relative error of A B by the Frobenius norm.
double gemm_error(int n) {
  const auto size = static_cast<std::size_t>(n);
  const DeviceMemory a = random_halves(size * size, 1);
  const DeviceMemory b = random_halves(size * size, 2);
  const DeviceMemory c = device_memory(4 * size * size);
  launch_gemm(nullptr, 4, reinterpret_cast<float*>(c.get()), a.get(), b.get(), n, nullptr);
  const auto left = from_device<__half>(a, size * size);
  const auto right = from_device<__half>(b, size * size);
  const auto got = from_device<float>(c, size * size);
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < size; ++i) {
    for (std::size_t j = 0; j < size; ++j) {
      double sum = 0;
      for (std::size_t k = 0; k < size; ++k)
        sum += static_cast<double>(__half2float(left[i * size + k])) *
               static_cast<double>(__half2float(right[k * size + j]));
      const double off = sum - static_cast<double>(got[i * size + j]);
      error += off * off;
      norm += sum * sum;
    }
  }
  return std::sqrt(error / norm);
}

bool link_copies(std::size_t bytes) {
  const DeviceMemory from = random_halves(bytes / 2, 3);
  const DeviceMemory to = random_halves(bytes / 2, 4);
  launch_link(nullptr, 2, to.get(), from.get(), static_cast<std::int64_t>(bytes), 1000, nullptr);
  return from_device<char>(from, bytes) == from_device<char>(to, bytes);
}

bool ew_computes(std::size_t floats) {
  std::vector<float> values(floats);
  for (std::size_t i = 0; i < floats; ++i) values[i] = static_cast<float>(i);
  const DeviceMemory from = device_memory(4 * floats);
  const DeviceMemory to = device_memory(4 * floats);
  REPLAY_CUDA(cudaMemcpy(from.get(), values.data(), 4 * floats, cudaMemcpyHostToDevice));
  launch_ew(nullptr, 4, to.get(), from.get(), static_cast<std::int64_t>(8 * floats), nullptr);
  const auto got = from_device<float>(to, floats);
  for (std::size_t i = 0; i < floats; ++i)
    if (std::abs(got[i] - (values[i] / 2 + 1)) > 0) return false;
  return true;
}

}  // namespace

std::string wrong_kernel() {
  for (const int n : {16, 64, 144}) {  // less than a tile, one tile, tiles that stick out
    const double error = gemm_error(n);
    if (!(error < 1e-3)) return "gemm " + std::to_string(n) + " is off by " + std::to_string(error);
  }
  if (!link_copies(16384 * 5 + 256)) return "link does not copy";
  if (!ew_computes(100'000)) return "ew does not compute";
  return "";
}

}  // namespace baechi::validate::replay
