/// The ready ops of one lane of a device, in the order in which they will run.
#pragma once
#include <algorithm>
#include <vector>

#include "sim/ids.h"
#include "sim/units.h"

namespace baechi {

/// Fifo: by (time of becoming ready, op id). Ops become ready in time order, so only ops of one
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
  /// `priority`: [num_ops], or null for fifo.
  void reset(const std::int32_t* priority) {
    priority_ = priority;
    clear();
    sorted_ = true;
  }

  bool empty() const { return head_ == tail_; }

  void push(OpId v, TimePoint now) {
    const bool sorts = !sorted_ && batch_time_ != now;
    if (by_priority() || sorts || tail_ == capacity_) [[unlikely]]
      return push_with_more_work(v, now);
    append(v, now);
  }

  OpId pop() {
    if (by_priority()) {
      std::pop_heap(at(0), at(tail_), runs_later());
      return ops_[--tail_];
    }
    if (!sorted_) sort_batch();
    const OpId v = ops_[head_++];
    if (head_ == tail_) clear();
    return v;
  }

 private:
  static constexpr TimePoint before_all{Duration{-1}};

  bool by_priority() const { return !always_fifo && priority_ != nullptr; }

  void clear() {
    head_ = tail_ = batch_ = 0;
    batch_time_ = before_all;
  }

  void append(OpId v, TimePoint now) {
    if (batch_time_ != now) {
      batch_ = tail_;
      batch_time_ = now;
    } else if (v < ops_[tail_ - 1]) {
      sorted_ = false;
    }
    ops_[tail_++] = v;
  }

  // Not inlined: the rare case would take registers from the common one.
  [[gnu::noinline]] void push_with_more_work(OpId v, TimePoint now) {
    if (tail_ == capacity_) ops_.resize(capacity_ = 2 * capacity_ + 16);
    if (by_priority()) {
      ops_[tail_++] = v;
      std::push_heap(at(0), at(tail_), runs_later());
      return;
    }
    if (!sorted_ && batch_time_ != now) sort_batch();
    append(v, now);
  }
  [[gnu::noinline]] void sort_batch() {
    std::sort(at(std::max(batch_, head_)), at(tail_));
    sorted_ = true;
  }
  auto at(std::size_t place) { return ops_.begin() + static_cast<std::ptrdiff_t>(place); }

  const std::int32_t* priority_ = nullptr;
  std::vector<OpId> ops_;  // [capacity_], of which [head_, tail_) are in use; a heap if by priority
  std::size_t head_ = 0, tail_ = 0, capacity_ = 0;
  std::size_t batch_ = 0;  // where the ops of batch_time_ begin
  TimePoint batch_time_ = before_all;
  bool sorted_ = true;  // from batch_ on
};

}  // namespace baechi
