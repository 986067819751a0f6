/// How many readers and transfers each tensor in a device's memory waits for.
#pragma once
#include <cstdint>
#include <vector>

#include "sim/engine/memory_account.h"
#include "sim/engine/step_graph.h"

namespace baechi {

/// A holding is a tensor in a device's memory: where it was produced, or a copy. A holding's uses
/// are the readers and transfers that have still to end; with the last use the memory is given
/// back. Ids: each tensor on its producer's device has the tensor's own, then comes a holding that
/// is never given back, then the copies in the order of add_copy.
class Holdings {
 public:
  explicit Holdings(const StepGraph& graph)
      : always_held_(static_cast<std::uint32_t>(graph.num_tensors())) {
    for (const TensorId t : id_range<TensorId>(0, graph.num_tensors()))
      all_.push_back({.size = graph.held(t)});
  }

  /// Nothing is in memory yet.
  void reset() {
    all_.resize(always_held_);
    all_.push_back({.size = {}, .uses = ~std::uint32_t{0}});
  }

  static std::uint32_t of(TensorId t) { return static_cast<std::uint32_t>(index(t)); }
  std::uint32_t always_held() const { return always_held_; }
  std::uint32_t next_copy() const { return static_cast<std::uint32_t>(all_.size()); }
  Bytes size(std::uint32_t id) const { return all_[id].size; }

  /// `t` is complete on its producer's device.
  void produce(TensorId t, std::uint32_t uses) { all_[index(t)].uses = uses; }
  /// A copy with one reader, whose id is next_copy().
  void add_copy(Bytes size) { all_.push_back({size, 1}); }
  void add_use(std::uint32_t id) { ++all_[id].uses; }
  /// A use of `id`, which lies in `memory`, has ended.
  void drop_use(std::uint32_t id, MemoryAccount& memory) {
    Holding& holding = all_[id];
    // Arithmetic in place of branches, which would often be mispredicted.
    const std::int64_t last = --holding.uses == 0 ? 1 : 0;
    const auto kind = static_cast<std::uint8_t>(MemoryKind::outputs) + (id > always_held_ ? 1 : 0);
    memory.give_back(static_cast<MemoryKind>(kind), Bytes{last * holding.size.count});
  }

 private:
  struct Holding {
    Bytes size{};
    std::uint32_t uses = 0;
  };
  std::uint32_t always_held_ = 0;
  std::vector<Holding> all_;
};

}  // namespace baechi
