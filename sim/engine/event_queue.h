/// Future events, earliest first.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "sim/units.h"

namespace baechi {

enum class EventKind : std::uint32_t {
  op_ended,        ///< id: the device
  transfer_ended,  ///< id: the copy
  latency_over,    ///< of a staged transfer; id: the copy
  sender_left,     ///< by a staged transfer; id: the copy
};

struct Event {
  EventKind kind{};
  std::uint32_t id = 0;
};

/// The next events lie sorted, which is fastest for as many as a few dozen devices have under way
/// (8 devices: two thirds of the instructions of a 4-ary heap, and three fifths of the mispredicted
/// branches); the rest lie in a heap. The order of equal times depends on nothing but the calls.
class EventQueue {
 public:
  bool empty() const { return size_ == 0; }
  TimePoint time() const { return next_[size_ - 1].time; }  ///< of the earliest
  void clear() {
    size_ = 0;
    later_.clear();
  }

  void push(TimePoint time, Event event) {
    if (!later_.empty() && time >= later_.front().time) return push_later({time, event});
    std::size_t place = size_;
    for (; place > 0 && next_[place - 1].time <= time; --place) next_[place] = next_[place - 1];
    next_[place] = {time, event};
    if (++size_ == next_.size()) move_later();
  }

  /// The earliest event.
  Event pop() {
    const Event event = next_[--size_].event;
    if (size_ == 0 && !later_.empty()) move_next();
    return event;
  }

 private:
  struct Timed {
    TimePoint time{};
    Event event{};
  };
  static constexpr auto comes_later = [](const Timed& a, const Timed& b) {
    return a.time > b.time;
  };

  void push_later(Timed timed) {
    later_.push_back(timed);
    std::ranges::push_heap(later_, comes_later);
  }
  void move_later() {
    const auto half = next_.begin() + next_.size() / 2;
    std::for_each(next_.begin(), half, [&](const Timed& e) { push_later(e); });
    std::copy(half, next_.end(), next_.begin());
    size_ -= next_.size() / 2;
  }
  void move_next() {
    for (; size_ < next_.size() / 2 && !later_.empty(); ++size_) {
      std::ranges::pop_heap(later_, comes_later);
      next_[size_] = later_.back();
      later_.pop_back();
    }
    std::reverse(next_.begin(), next_.begin() + static_cast<std::ptrdiff_t>(size_));
  }

  std::array<Timed, 160> next_{};  // the first size_, the earliest last
  std::size_t size_ = 0;
  std::vector<Timed> later_;  // a heap; none is earlier than any of next_
};

}  // namespace baechi
