#include "validate/cuda/memory_pool.h"

#include <algorithm>

namespace baechi::validate::replay {

namespace {

char nothing = 0;  // its address stands for an allocation of 0 bytes

}  // namespace

MemoryPool::MemoryPool(std::int64_t budget) : budget_(budget) {
  int gpu = 0;
  REPLAY_CUDA(cudaGetDevice(&gpu));
  cudaMemPoolProps properties{};
  properties.allocType = cudaMemAllocationTypePinned;
  properties.location = {cudaMemLocationTypeDevice, gpu};
  properties.maxSize = static_cast<std::size_t>(std::max<std::int64_t>(budget, 1));  // 0: no limit
  REPLAY_CUDA(cudaMemPoolCreate(&pool_, &properties));
  // Keep what was reserved, and never wait for another stream to find room.
  std::uint64_t keep = ~std::uint64_t{0};
  REPLAY_CUDA(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrReleaseThreshold, &keep));
  int off = 0;
  REPLAY_CUDA(cudaMemPoolSetAttribute(pool_, cudaMemPoolReuseAllowOpportunistic, &off));
  REPLAY_CUDA(cudaMemPoolSetAttribute(pool_, cudaMemPoolReuseAllowInternalDependencies, &off));
  cudaStream_t stream = nullptr;
  REPLAY_CUDA(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking));
  stream_.reset(stream);
}

MemoryPool::~MemoryPool() {
  for (void* const memory : held_) cudaFreeAsync(memory, stream_.get());
  cudaStreamSynchronize(stream_.get());
  cudaMemPoolDestroy(pool_);
}

void* MemoryPool::allocate(std::int64_t bytes) {
  if (bytes == 0) return &nothing;
  if (bytes > budget_) return nullptr;
  void* memory = nullptr;
  const cudaError_t error =
      cudaMallocFromPoolAsync(&memory, static_cast<std::size_t>(bytes), pool_, stream_.get());
  if (error == cudaErrorMemoryAllocation) {
    cudaGetLastError();
    return nullptr;
  }
  check(error, "cudaMallocFromPoolAsync");
  held_.insert(memory);
  return memory;
}

void MemoryPool::release(void* memory) {
  if (memory == &nothing) return;
  held_.erase(memory);
  REPLAY_CUDA(cudaFreeAsync(memory, stream_.get()));
}

void MemoryPool::reserve() {
  if (void* const all = allocate(budget_)) release(all);
  REPLAY_CUDA(cudaStreamSynchronize(stream_.get()));
  std::uint64_t none = 0;
  REPLAY_CUDA(cudaMemPoolSetAttribute(pool_, cudaMemPoolAttrUsedMemHigh, &none));
}

std::int64_t MemoryPool::most_used() const {
  std::uint64_t bytes = 0;
  REPLAY_CUDA(cudaMemPoolGetAttribute(pool_, cudaMemPoolAttrUsedMemHigh, &bytes));
  return static_cast<std::int64_t>(bytes);
}

}  // namespace baechi::validate::replay
