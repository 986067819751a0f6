/// The harness's kernels on the stand-in: durations; small ones also compute their results.
#include <cuda_fp16.h>

#include <algorithm>
#include <cstring>

#include "tests/standin/standin.h"
#include "validate/cuda/cuda_check.h"

namespace baechi::validate::replay {

namespace {

constexpr std::int64_t little = 1 << 20;  // bytes

}  // namespace

void launch_spin(cudaStream_t stream, std::int64_t ns, Stamp* stamp) {
  REPLAY_CUDA(standin::run(stream, ns, stamp));
}

void launch_occupy(cudaStream_t stream, unsigned, std::int64_t ns, Stamp* stamp) {
  REPLAY_CUDA(standin::run(stream, 2 * ns, stamp));
}

void launch_gate(cudaStream_t stream, const unsigned*, unsigned*, std::int64_t) {
  REPLAY_CUDA(standin::run(stream, 1000, nullptr, standin::Engine::none, true));
}

void launch_ew(cudaStream_t stream, unsigned, void* to, const void* from, std::int64_t bytes,
               Stamp* stamp) {
  REPLAY_CUDA(standin::run(stream, standin::truth::ew.of(static_cast<double>(bytes)), stamp,
                           standin::Engine::none, false,
                           {from, to, static_cast<std::size_t>(bytes / 2)}));
  if (stamp != nullptr || bytes > little) return;
  auto* const out = static_cast<float*>(to);
  const auto* const in = static_cast<const float*>(from);
  for (std::int64_t i = 0; i < bytes / 8; ++i) out[i] = in[i] / 2 + 1;
}

void launch_gemm(cudaStream_t stream, unsigned, float* c, const void* a, const void* b, int n,
                 Stamp* stamp) {
  const double side = n;
  REPLAY_CUDA(standin::run(stream, standin::truth::gemm.of(2 * side * side * side), stamp));
  if (stamp != nullptr || n > 256) return;
  const auto* const left = static_cast<const __half*>(a);
  const auto* const right = static_cast<const __half*>(b);
  for (int i = 0; i < n; ++i) {
    for (int j = 0; j < n; ++j) {
      float sum = 0;
      for (int k = 0; k < n; ++k)
        sum += __half2float(left[i * n + k]) * __half2float(right[k * n + j]);
      c[i * n + j] = sum;
    }
  }
}

void launch_link(cudaStream_t stream, unsigned, void* to, const void* from, std::int64_t bytes,
                 std::int64_t ns, Stamp* stamp) {
  const std::int64_t moving =
      static_cast<std::int64_t>(static_cast<double>(bytes) / standin::truth::link_bytes_per_ns);
  REPLAY_CUDA(standin::run(stream, std::max(ns, moving), stamp));
  if (stamp == nullptr && bytes <= little) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

void launch_begin(cudaStream_t stream, Stamp* stamp) {
  REPLAY_CUDA(standin::run(stream, 500, stamp));
}
void launch_end(cudaStream_t stream, Stamp* stamp) {
  REPLAY_CUDA(standin::run(stream, 500, stamp));
}

void launch_fill(cudaStream_t stream, void* values, std::int64_t count, unsigned seed) {
  REPLAY_CUDA(standin::run(stream, count / 1000, nullptr));
  if (2 * count > little) return;
  auto* const halves = static_cast<__half*>(values);
  for (std::int64_t i = 0; i < count; ++i) {
    const unsigned h = (static_cast<unsigned>(i) * 2654435761U) ^ (seed * 40503U);
    halves[i] = __float2half(static_cast<float>(h >> 7U & 0xffffU) / 32768.0F - 1.0F);
  }
}

void launch_tick(cudaStream_t stream, unsigned long long* ns, int) {
  REPLAY_CUDA(standin::run(stream, 1000, nullptr));
  *ns = standin::truth::timer_tick_ns;
}

}  // namespace baechi::validate::replay
