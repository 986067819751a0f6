/// Transfers as in the original Baechi: one half-duplex channel per device, first come, first
/// served. Used by its simulator (simulation.h) and its placers (placers/original).
#pragma once
#include <algorithm>

#include "sim/original/graph.h"

namespace baechi::original {

struct Booking {
  TimePoint send_start{};
  TimePoint send_end{};
  TimePoint receive_start{};
  TimePoint receive_end{};  ///< the tensor has arrived
};

/// An op that ran. Events are in booking order, so times may decrease (Q8).
struct OpEvent {
  OpId op{};
  DeviceId device{};
  TimePoint ready{};
  TimePoint start{};
  TimePoint end{};
};
struct TransferEvent {
  Graph::Send send;
  OpId src{};
  OpId dst{};
  DeviceId from{};
  DeviceId to{};
  bool cached = false;  ///< no transfer: `booking` is of the earlier one of this tensor to `to`
  Booking booking;
};

/// Receives every event.
class Log {
 public:
  virtual ~Log() = default;
  virtual void on_op(const OpEvent&) {}
  virtual void on_transfer(const TransferEvent&) {}
};

/// std::max by value, which compilers turn into a conditional move.
constexpr TimePoint later(TimePoint a, TimePoint b) {
  return a < b ? b : a;
}

class Channels {
 public:
  explicit Channels(std::size_t devices) : free_(devices) {}

  /// Drops all bookings.
  void reset() { std::ranges::fill(free_, TimePoint{}); }

  /// Sends a tensor that is available at `from` from `ready` on. Q8: both channels are booked after
  /// all earlier bookings, never in a gap, and the sender may be done before the receiver begins.
  Booking book(DeviceId from, DeviceId to, TimePoint ready, Duration time) {
    Booking b;
    b.send_start = later(ready, free_[from]);
    b.send_end = free_[from] = b.send_start + time;
    b.receive_start = later(b.send_start, free_[to]);
    b.receive_end = free_[to] = b.receive_start + time;
    return b;
  }

  /// The arrival time of the tensor. Q9: nothing is booked, so inputs of one op do not delay each
  /// other.
  TimePoint estimate(DeviceId from, DeviceId to, TimePoint ready, Duration time) const {
    return later(later(ready, free_[from]), free_[to]) + time;
  }

 private:
  IdVector<DeviceId, TimePoint> free_;  // end of the last booking on each channel
};

}  // namespace baechi::original
