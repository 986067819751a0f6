/// Queues of the event engine: future events, and the ready ops of a lane; the memory in use on one
/// device, with reference counts of its tensors.
#pragma once
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

/// The next events are a sorted array, which is fastest for the pending events of a few dozen
/// devices (8 devices: two thirds of the instructions of a 4-ary heap, and three fifths of its
/// mispredicted branches); the rest are a heap. Ties: an order that depends on the calls alone.
class EventQueue {
 public:
  EventQueue() { clear(); }

  bool empty() const { return size_ == 0; }
  TimePoint time() const { return next_[size_].time; }  ///< of the earliest; `never` if empty
  void clear() {
    next_[0].time = never;
    size_ = 0;
    later_.clear();
    later_from_ = never;
  }

  /// `code`: the event as an integer.
  void push(TimePoint time, std::uint64_t code) {
    if (time >= later_from_) return push_later({time, code});
    Event* place = &next_[++size_];
    for (; (place - 1)->time <= time; --place) *place = *(place - 1);
    *place = {time, code};
    if (size_ == most) move_later();
  }

  /// The earliest event's code.
  std::uint64_t pop() {
    const std::uint64_t code = next_[size_--].code;
    if (size_ == 0 && !later_.empty()) move_next();
    return code;
  }

 private:
  struct Event {
    TimePoint time{};
    std::uint64_t code = 0;
  };
  static constexpr auto comes_later = [](const Event& a, const Event& b) {
    return a.time > b.time;
  };

  static constexpr TimePoint never = TimePoint::max();
  static constexpr std::size_t most = 160;

  void push_later(Event event) {
    later_.push_back(event);
    std::ranges::push_heap(later_, comes_later);
    later_from_ = later_.front().time;
  }
  void move_later() {
    const auto first = next_.begin() + 1, half = first + most / 2;
    std::for_each(first, half, [&](const Event& e) { push_later(e); });
    std::copy(half, next_.end(), first);
    size_ -= most / 2;
  }
  void move_next() {
    for (; size_ < most / 2 && !later_.empty(); ++size_) {
      std::ranges::pop_heap(later_, comes_later);
      next_[size_ + 1] = later_.back();
      later_.pop_back();
    }
    later_from_ = later_.empty() ? never : later_.front().time;
    std::reverse(next_.begin() + 1, next_.begin() + 1 + static_cast<std::ptrdiff_t>(size_));
  }

  std::array<Event, most + 1> next_{};  // a sentinel `never`, then size_ events, the earliest last
  std::size_t size_ = 0;
  std::vector<Event> later_;  // a heap of events not earlier than those of next_
  TimePoint later_from_{};    // its earliest time; `never` if empty
};

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
