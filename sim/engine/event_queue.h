/// Future events, earliest first.
#pragma once
#include <algorithm>
#include <array>
#include <cstdint>
#include <vector>

#include "sim/units.h"

namespace baechi {

/// The next events lie sorted, which is fastest for as many as a few dozen devices have under way
/// (8 devices: two thirds of the instructions of a 4-ary heap, and three fifths of the branches
/// mispredicted); the rest in a heap. Equal times come in an order that depends on nothing but
/// the calls made.
class EventQueue {
 public:
  bool empty() const { return size_ == 0; }
  TimePoint time() const { return next_[size_ - 1].time; }  ///< of the earliest
  void clear() {
    size_ = 0;
    later_.clear();
  }

  /// `code`: the event as an integer.
  void push(TimePoint time, std::uint64_t code) {
    if (!later_.empty() && time >= later_.front().time) return push_later({time, code});
    std::size_t place = size_;
    for (; place > 0 && next_[place - 1].time <= time; --place) next_[place] = next_[place - 1];
    next_[place] = {time, code};
    if (++size_ == next_.size()) move_later();
  }

  /// The earliest event's code.
  std::uint64_t pop() {
    const std::uint64_t code = next_[--size_].code;
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

  void push_later(Event event) {
    later_.push_back(event);
    std::ranges::push_heap(later_, comes_later);
  }
  void move_later() {
    const auto half = next_.begin() + next_.size() / 2;
    std::for_each(next_.begin(), half, [&](const Event& e) { push_later(e); });
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

  std::array<Event, 160> next_{};  // the first size_, the earliest last
  std::size_t size_ = 0;
  std::vector<Event> later_;  // a heap; none is earlier than any of next_
};

}  // namespace baechi
