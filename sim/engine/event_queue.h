/// Future events, earliest first; equal times in the order of their codes.
#pragma once
#include <algorithm>
#include <cstdint>
#include <vector>

#include "sim/units.h"

namespace baechi {

/// A 4-ary heap of 16-byte entries: half the levels of a binary one, and the four children of an
/// entry share a cache line.
class EventQueue {
 public:
  struct Event {
    TimePoint time;
    std::uint64_t code;  ///< what happens; unique among the queued events
    friend auto operator<=>(const Event&, const Event&) = default;
  };

  bool empty() const { return heap_.empty(); }
  const Event& top() const { return heap_.front(); }

  void push(Event event) {
    std::size_t hole = heap_.size();
    heap_.push_back(event);
    while (hole > 0 && event < heap_[(hole - 1) / 4]) {
      heap_[hole] = heap_[(hole - 1) / 4];
      hole = (hole - 1) / 4;
    }
    heap_[hole] = event;
  }

  Event pop() {
    const Event first = heap_.front();
    const Event last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sift_down(last);
    return first;
  }

 private:
  void sift_down(Event event) {
    const std::size_t size = heap_.size();
    std::size_t hole = 0;
    for (std::size_t child = 1; child < size; child = 4 * hole + 1) {
      const std::size_t end = std::min(child + 4, size);
      std::size_t least = child;
      for (std::size_t c = child + 1; c < end; ++c)
        if (heap_[c] < heap_[least]) least = c;
      if (event < heap_[least]) break;
      heap_[hole] = heap_[least];
      hole = least;
    }
    heap_[hole] = event;
  }

  std::vector<Event> heap_;
};

}  // namespace baechi
