#include <cuda_fp16.h>
#include <mma.h>

#include <algorithm>

#include "validate/cuda/cuda_check.h"
#include "validate/cuda/kernels.h"

namespace baechi::validate::replay {

namespace {

using Ticks = unsigned long long;

__device__ Ticks now() {
  Ticks time;
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(time));
  return time;
}

__device__ void stamp_begin(Stamp* stamp, Ticks time) {
  if (stamp == nullptr || threadIdx.x != 0) return;
  unsigned sm;
  asm volatile("mov.u32 %0, %%smid;" : "=r"(sm));
  atomicMin(&stamp->begin, time);
  atomicOr(reinterpret_cast<Ticks*>(&stamp->sms) + (sm >> 6 & 3), 1ULL << (sm & 63));
}

__device__ void stamp_end(Stamp* stamp) {
  __syncthreads();
  if (stamp != nullptr && threadIdx.x == 0) atomicMax(&stamp->end, now());
}

__global__ void spin(Ticks ns, Stamp* stamp) {
  const Ticks begin = now();
  stamp_begin(stamp, begin);
  if (threadIdx.x == 0) {
    while (now() - begin < ns) {
    }
  }
  stamp_end(stamp);
}

__global__ void gate(const volatile unsigned* open, volatile unsigned* late, Ticks limit) {
  const Ticks begin = now();
  while (*open == 0) {
    if (now() - begin > limit) {
      *late = 1;
      return;
    }
  }
}

__global__ void elementwise(float4* __restrict__ to, const float4* __restrict__ from, Ticks count,
                            Stamp* stamp) {
  stamp_begin(stamp, now());
  const Ticks stride = Ticks{gridDim.x} * blockDim.x;
  for (Ticks i = Ticks{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    const float4 x = from[i];
    to[i] = {0.5f * x.x + 1, 0.5f * x.y + 1, 0.5f * x.z + 1, 0.5f * x.w + 1};
  }
  stamp_end(stamp);
}

constexpr int tile = 64;  // of C, per block of 4 warps
constexpr int tile_k = 32;
constexpr int gemm_threads = 128;

/// 8 halves of row `row` from column `column` on, zeros beyond the matrix. n: a multiple of 16.
__device__ uint4 load8(const __half* matrix, int row, int column, int n) {
  if (row >= n || column >= n) return {0, 0, 0, 0};
  return *reinterpret_cast<const uint4*>(matrix + static_cast<Ticks>(row) * n + column);
}

/// Not tuned: what it needs is a duration that follows its partition, not a record.
__global__ void __launch_bounds__(gemm_threads)
    gemm(float* __restrict__ c, const __half* __restrict__ a, const __half* __restrict__ b, int n,
         Stamp* stamp) {
  using namespace nvcuda::wmma;
  __shared__ __align__(32) __half part_a[tile][tile_k + 8];
  __shared__ __align__(32) __half part_b[tile_k][tile + 8];
  stamp_begin(stamp, now());
  const int tiles = (n + tile - 1) / tile;
  const int warp = static_cast<int>(threadIdx.x) / 32;
  for (int t = static_cast<int>(blockIdx.x); t < tiles * tiles; t += static_cast<int>(gridDim.x)) {
    const int row = t / tiles * tile;
    const int column = t % tiles * tile;
    fragment<accumulator, 16, 16, 16, float> sums[4];
    for (auto& sum : sums) fill_fragment(sum, 0.0f);
    for (int k = 0; k < n; k += tile_k) {
      for (int i = static_cast<int>(threadIdx.x); i < tile * tile_k / 8; i += gemm_threads) {
        *reinterpret_cast<uint4*>(&part_a[i / 4][i % 4 * 8]) =
            load8(a, row + i / 4, k + i % 4 * 8, n);
        *reinterpret_cast<uint4*>(&part_b[i / 8][i % 8 * 8]) =
            load8(b, k + i / 8, column + i % 8 * 8, n);
      }
      __syncthreads();
      for (int kk = 0; kk < tile_k; kk += 16) {
        fragment<matrix_a, 16, 16, 16, __half, row_major> left;
        load_matrix_sync(left, &part_a[warp * 16][kk], tile_k + 8);
        for (int j = 0; j < 4; ++j) {
          fragment<matrix_b, 16, 16, 16, __half, row_major> right;
          load_matrix_sync(right, &part_b[kk][j * 16], tile + 8);
          mma_sync(sums[j], left, right, sums[j]);
        }
      }
      __syncthreads();
    }
    for (int j = 0; j < 4; ++j) {
      if (row + warp * 16 < n && column + j * 16 < n)
        store_matrix_sync(c + static_cast<Ticks>(row + warp * 16) * n + column + j * 16, sums[j], n,
                          mem_row_major);
    }
  }
  stamp_end(stamp);
}

constexpr Ticks link_chunk = 16384;
// A thread per 16 bytes of a chunk, so that all of it is loaded at once. With a quarter of the
// threads 8 multiprocessors load 4 KiB each per 650 ns: 50 GB/s, no more than links shall reach.
constexpr unsigned link_threads = link_chunk / 16;

__global__ void link_copy(uint4* __restrict__ to, const uint4* __restrict__ from, Ticks bytes,
                          Ticks ns, Stamp* stamp) {
  const Ticks begin = now();
  stamp_begin(stamp, begin);
  const Ticks chunks = (bytes + link_chunk - 1) / link_chunk;
  for (Ticks chunk = blockIdx.x; chunk < chunks; chunk += gridDim.x) {
    const Ticks low = chunk * link_chunk;
    const Ticks high = min(bytes, low + link_chunk);
    for (Ticks i = low / 16 + threadIdx.x; i < (high + 15) / 16; i += blockDim.x) to[i] = from[i];
    const Ticks due =
        begin + static_cast<Ticks>(static_cast<double>(ns) *
                                   (static_cast<double>(high) / static_cast<double>(bytes)));
    if (threadIdx.x == 0) {
      while (now() < due) {
      }
    }
    __syncthreads();
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) {  // also when there is nothing to move
    while (now() - begin < ns) {
    }
  }
  stamp_end(stamp);
}

__global__ void begin_stamp(Stamp* stamp) { stamp_begin(stamp, now()); }

__global__ void end_stamp(Stamp* stamp) { atomicMax(&stamp->end, now()); }

__global__ void fill(__half* values, Ticks count, unsigned seed) {
  const Ticks stride = Ticks{gridDim.x} * blockDim.x;
  for (Ticks i = Ticks{blockIdx.x} * blockDim.x + threadIdx.x; i < count; i += stride) {
    unsigned h = (static_cast<unsigned>(i) ^ seed) * 2654435761u;
    h = (h ^ (h >> 15)) * 2246822519u;
    h ^= h >> 13;
    values[i] = __float2half(static_cast<float>(h & 0xffff) / 32768.0f - 1.0f);
  }
}

__global__ void tick(Ticks* smallest, int reads) {
  Ticks before = now();
  Ticks best = ~Ticks{0};
  for (int i = 0; i < reads; ++i) {
    const Ticks time = now();
    if (time != before && time - before < best) best = time - before;
    before = time;
  }
  *smallest = best == ~Ticks{0} ? 0 : best;
}

/// Blocks for `work` pieces, at most `most`, at least one.
unsigned blocks_for(std::int64_t work, unsigned most) {
  return static_cast<unsigned>(std::max<std::int64_t>(1, std::min<std::int64_t>(work, most)));
}

}  // namespace

void launch_spin(cudaStream_t stream, std::int64_t ns, Stamp* stamp) {
  spin<<<1, 32, 0, stream>>>(static_cast<Ticks>(ns), stamp);
  REPLAY_CUDA(cudaGetLastError());
}

void launch_occupy(cudaStream_t stream, unsigned blocks, std::int64_t ns, Stamp* stamp) {
  spin<<<blocks, 1024, 0, stream>>>(static_cast<Ticks>(ns), stamp);
  REPLAY_CUDA(cudaGetLastError());
}

void launch_gate(cudaStream_t stream, const unsigned* open, unsigned* late, std::int64_t limit_ns) {
  gate<<<1, 1, 0, stream>>>(open, late, static_cast<Ticks>(limit_ns));
  REPLAY_CUDA(cudaGetLastError());
}

void launch_ew(cudaStream_t stream, unsigned sms, void* to, const void* from, std::int64_t bytes,
               Stamp* stamp) {
  const std::int64_t count = bytes / 32;
  elementwise<<<blocks_for((count + 255) / 256, 8 * sms), 256, 0, stream>>>(
      static_cast<float4*>(to), static_cast<const float4*>(from), static_cast<Ticks>(count), stamp);
  REPLAY_CUDA(cudaGetLastError());
}

void launch_gemm(cudaStream_t stream, unsigned sms, float* c, const void* a, const void* b, int n,
                 Stamp* stamp) {
  const std::int64_t tiles = (n + tile - 1) / tile;
  gemm<<<blocks_for(tiles * tiles, 4 * sms), gemm_threads, 0, stream>>>(
      c, static_cast<const __half*>(a), static_cast<const __half*>(b), n, stamp);
  REPLAY_CUDA(cudaGetLastError());
}

void launch_link(cudaStream_t stream, unsigned sms, void* to, const void* from, std::int64_t bytes,
                 std::int64_t ns, Stamp* stamp) {
  const std::int64_t chunks =
      (bytes + static_cast<std::int64_t>(link_chunk) - 1) / static_cast<std::int64_t>(link_chunk);
  link_copy<<<blocks_for(chunks, sms), link_threads, 0, stream>>>(
      static_cast<uint4*>(to), static_cast<const uint4*>(from), static_cast<Ticks>(bytes),
      static_cast<Ticks>(ns), stamp);
  REPLAY_CUDA(cudaGetLastError());
}

void launch_begin(cudaStream_t stream, Stamp* stamp) {
  begin_stamp<<<1, 1, 0, stream>>>(stamp);
  REPLAY_CUDA(cudaGetLastError());
}

void launch_end(cudaStream_t stream, Stamp* stamp) {
  end_stamp<<<1, 1, 0, stream>>>(stamp);
  REPLAY_CUDA(cudaGetLastError());
}

void launch_fill(cudaStream_t stream, void* halves, std::int64_t count, unsigned seed) {
  fill<<<1024, 256, 0, stream>>>(static_cast<__half*>(halves), static_cast<Ticks>(count), seed);
  REPLAY_CUDA(cudaGetLastError());
}

void launch_tick(cudaStream_t stream, unsigned long long* ns, int reads) {
  tick<<<1, 1, 0, stream>>>(ns, reads);
  REPLAY_CUDA(cudaGetLastError());
}

}  // namespace baechi::validate::replay
