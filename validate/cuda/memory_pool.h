/// A device's memory with a budget.
#pragma once
#include <cuda_runtime_api.h>

#include <cstdint>
#include <set>

#include "validate/cuda/cuda_check.h"

namespace baechi::validate::replay {

/// Allocations are known to be free for reuse once given back: use it with completion known only.
class MemoryPool {
 public:
  /// A pool on the current GPU. The driver may round the budget up; measure it. Throws CudaError.
  explicit MemoryPool(std::int64_t budget);
  ~MemoryPool();
  MemoryPool(const MemoryPool&) = delete;
  MemoryPool& operator=(const MemoryPool&) = delete;

  /// Takes the whole budget from the GPU now, if the GPU has it. Later allocations are then quick.
  void reserve();

  /// nullptr: the budget is used up. 0 bytes: some address.
  void* allocate(std::int64_t bytes);
  void release(void* memory);

  std::int64_t most_used() const;  ///< bytes, as the pool counts them; reserve() does not count

 private:
  std::int64_t budget_;
  cudaMemPool_t pool_ = nullptr;
  Stream stream_;
  std::set<void*> held_;
};

}  // namespace baechi::validate::replay
