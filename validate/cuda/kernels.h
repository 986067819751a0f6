/// The kernels. Each stamps its own start and end by the global timer of the GPU, and its SMs.
/// Timing a replay therefore needs neither a profiler nor events.
#pragma once
#include <cuda_runtime_api.h>

#include <array>
#include <cstdint>

namespace baechi::validate::replay {

/// SM ids, as bits.
using SmSet = std::array<unsigned long long, 4>;

/// [begin, end) in ns of the global timer. Before a run: begin all ones, the rest 0.
struct Stamp {
  unsigned long long begin = ~0ULL;
  unsigned long long end = 0;
  SmSet sms{};
};

/// Keeps one block busy for `ns`, whatever the clock rate and the neighbours.
void launch_spin(cudaStream_t stream, std::int64_t ns, Stamp* stamp);

/// The same on `blocks` blocks of 1024 threads.
void launch_occupy(cudaStream_t stream, unsigned blocks, std::int64_t ns, Stamp* stamp);

/// Holds the stream until `*open` is not 0, at most `limit_ns`; then `*late` becomes 1.
/// Both are in mapped host memory.
void launch_gate(cudaStream_t stream, const unsigned* open, unsigned* late, std::int64_t limit_ns);

/// Memory-bound: `to[i] = from[i] / 2 + 1`; reads and writes `bytes` / 2 each. bytes: a multiple
/// of 32.
void launch_ew(cudaStream_t stream, unsigned sms, void* to, const void* from, std::int64_t bytes,
               Stamp* stamp);

/// C = A B, row by row, half in, float out. n: a multiple of 16.
void launch_gemm(cudaStream_t stream, unsigned sms, float* c, const void* a, const void* b, int n,
                 Stamp* stamp);

/// Moves `bytes` (to a multiple of 16), no faster than all of them take `ns`.
void launch_link(cudaStream_t stream, unsigned sms, void* to, const void* from, std::int64_t bytes,
                 std::int64_t ns, Stamp* stamp);

/// Bracket work that cannot stamp itself.
void launch_begin(cudaStream_t stream, Stamp* stamp);
void launch_end(cudaStream_t stream, Stamp* stamp);

/// Random halves in [-1, 1).
void launch_fill(cudaStream_t stream, void* halves, std::int64_t count, unsigned seed);

/// The smallest step of the global timer that is seen in `reads` reads; 0 if it stood still.
void launch_tick(cudaStream_t stream, unsigned long long* ns, int reads);

}  // namespace baechi::validate::replay
