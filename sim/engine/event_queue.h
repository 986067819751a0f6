/// Priority queue of future events.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "sim/units.h"

namespace baechi {

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

}  // namespace baechi
