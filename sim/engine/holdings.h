/// The memory in use on one device, and reference counts of the tensors in it.
#pragma once
#include <cstdint>
#include <limits>
#include <span>
#include <vector>

#include "sim/graph/op_graph.h"
#include "sim/problem/step.h"

namespace baechi {

class MemoryAccount {
 public:
  /// Unlimited.
  MemoryAccount() = default;
  explicit MemoryAccount(Bytes limit) : limit_(limit) {}

  void reset() { *this = MemoryAccount(limit_); }

  bool fits(Bytes size) const { return used_ + size <= limit_; }
  Bytes free() const { return limit_ - used_; }
  const MemoryUse& live() const { return live_; }
  Bytes peak() const { return peak_; }
  const MemoryUse& at_peak() const { return at_peak_; }

  void take(MemoryKind kind, Bytes size) {
    live_[kind] += size;
    used_ += size;
  }
  void give_back(MemoryKind kind, Bytes size) {
    live_[kind] -= size;
    used_ -= size;
  }
  /// To be called after a complete request: peaks within a request are not recorded.
  void note_peak() {
    if (used_ <= peak_) return;
    peak_ = used_;
    at_peak_ = live_;
  }

 private:
  MemoryUse live_{};
  Bytes used_{}, limit_{std::numeric_limits<std::int64_t>::max()}, peak_{};
  MemoryUse at_peak_{};
};

/// A holding is a tensor in a device's memory, on its producer's device or as a copy. Its uses are
/// the readers and transfers that have not ended; the last one frees it. Ids: tensors on their
/// producer's device by TensorId, then one holding that is never freed, then copies in the order of
/// add_copy.
class Holdings {
 public:
  explicit Holdings(const OpGraph& graph)
      : always_held_(static_cast<std::uint32_t>(graph.num_tensors())) {
    all_.resize(graph.num_tensors());
    for (const TensorId t : graph.tensors()) all_[index(t)].size = graph.tensor(t).held();
  }

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
  void add_copy(Bytes size) { all_.push_back({size, 1, -1}); }
  void add_use(std::uint32_t id) { ++all_[id].uses; }
  /// A use of each of `ids`, which are in `memory`, has ended.
  void drop_uses(std::span<const std::uint32_t> ids, MemoryAccount& memory) {
    Bytes freed{}, copies{};
    for (const std::uint32_t id : ids) {  // branch-free: branches would often be mispredicted
      const Bytes now = drop(id);
      freed += now;
      copies.count += now.count & all_[id].copy;
    }
    memory.give_back(MemoryKind::outputs, freed - copies);
    memory.give_back(MemoryKind::copies, copies);
  }
  /// A use of `t` on its producer's device has ended.
  void drop_output(TensorId t, MemoryAccount& memory) {
    memory.give_back(MemoryKind::outputs, drop(of(t)));
  }

 private:
  struct Holding {
    Bytes size{};
    std::uint32_t uses = 0;
    std::int32_t copy = 0;  // bit mask: -1 if it is a copy
  };

  /// A use of `id` has ended. Returns the bytes freed.
  Bytes drop(std::uint32_t id) {
    Holding& holding = all_[id];
    const std::int64_t last = --holding.uses == 0 ? 1 : 0;
    return {last * holding.size.count};
  }

  std::uint32_t always_held_ = 0;
  std::vector<Holding> all_;
};

}  // namespace baechi
