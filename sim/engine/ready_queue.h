/// The ready ops of one lane of a device, in the order in which they will run.
#pragma once
#include <algorithm>
#include <vector>

#include "sim/ids.h"
#include "sim/units.h"

namespace baechi {

/// Fifo: by (time it became ready, op id). Ops become ready in time order, so only ops of one
/// instant need sorting. By priority, unless `always_fifo`: by (largest priority, op id).
template <bool always_fifo>
class ReadyQueue {
  auto runs_later() const {
    return [this](OpId a, OpId b) {
      if (priority_[index(a)] != priority_[index(b)])
        return priority_[index(a)] < priority_[index(b)];
      return a > b;
    };
  }

 public:
  /// Empties it. `priority` [num_ops], or null for a fifo.
  void reset(const std::int32_t* priority) {
    priority_ = priority;
    forget();
    sorted_ = true;
  }

  bool empty() const { return ops_.empty(); }

  void push(OpId v, TimePoint now) {
    if (by_priority()) {
      ops_.push_back(v);
      std::ranges::push_heap(ops_, runs_later());
      return;
    }
    if (batch_time_ != now) {
      sort_batch();
      batch_ = ops_.size();
      batch_time_ = now;
    } else if (v < ops_.back()) {
      sorted_ = false;
    }
    ops_.push_back(v);
  }

  OpId pop() {
    if (by_priority()) {
      std::ranges::pop_heap(ops_, runs_later());
      const OpId v = ops_.back();
      ops_.pop_back();
      return v;
    }
    sort_batch();
    const OpId v = ops_[head_++];
    if (head_ == ops_.size()) forget();
    return v;
  }

 private:
  static constexpr TimePoint before_all{Duration{-1}};

  bool by_priority() const { return !always_fifo && priority_ != nullptr; }

  /// All ops have run.
  void forget() {
    ops_.clear();
    head_ = batch_ = 0;
    batch_time_ = before_all;
  }

  void sort_batch() {
    if (sorted_) return;
    std::sort(ops_.begin() + static_cast<std::ptrdiff_t>(std::max(batch_, head_)), ops_.end());
    sorted_ = true;
  }

  const std::int32_t* priority_ = nullptr;
  std::vector<OpId> ops_;  // from head_ on; a heap if by priority
  std::size_t head_ = 0;
  std::size_t batch_ = 0;  // where the ops of batch_time_ begin
  TimePoint batch_time_ = before_all;
  bool sorted_ = true;  // from batch_ on
};

}  // namespace baechi
