/// Transfers as the original Baechi books them: one half-duplex channel per device, first come
/// first booked. Shared by its simulator (baechi_simulation) and its placers (placers/compat).
#pragma once
#include <algorithm>
#include <vector>

#include "sim/engine/baechi_graph.h"

namespace baechi {

struct BaechiBooking {
  TimePoint send_start{};
  TimePoint send_end{};
  TimePoint receive_start{};
  TimePoint receive_end{};  ///< the tensor has arrived
};

/// What happened, in booking order: times may go back from one event to the next (Q8).
struct BaechiOpEvent {
  OpId op{};
  DeviceId device{};
  TimePoint ready{};
  TimePoint start{};
  TimePoint end{};
};
struct BaechiTransferEvent {
  BaechiGraph::Send send;
  OpId src{};
  OpId dst{};
  DeviceId from{};
  DeviceId to{};
  bool cached = false;  ///< nothing moved: the tensor was sent to `to` before, as `booking` says
  BaechiBooking booking;
};

/// Sees every event.
class BaechiLog {
 public:
  virtual ~BaechiLog() = default;
  virtual void on_op(const BaechiOpEvent&) {}
  virtual void on_transfer(const BaechiTransferEvent&) {}
};

class BaechiChannels {
 public:
  /// `keep_bookings`: remember the four times of each transfer, not its arrival alone.
  BaechiChannels(std::size_t tensors, std::size_t devices, bool keep_bookings)
      : devices_(devices), free_(devices), arrival_(tensors * devices, absent) {
    if (keep_bookings) bookings_.resize(tensors * devices);
  }

  /// Whether `t` was sent to `d` before. A tensor, once there, is never dropped.
  bool holds(DeviceId d, TensorId t) const { return arrival_[at(d, t)] != absent; }
  TimePoint arrival(DeviceId d, TensorId t) const {
    return arrival_[at(d, t)];
  }  ///< if it holds `t`
  /// All four times, if they are kept and `d` holds `t`.
  const BaechiBooking& booking(DeviceId d, TensorId t) const { return bookings_[at(d, t)]; }

  /// Sends a tensor that is at `from` since `ready`, takes `time`, and is not at `to`. Q8: both
  /// channels are booked after all that was booked before, even if an earlier gap would do, and the
  /// sender is free while the receiver may not have begun.
  BaechiBooking book(TensorId t, DeviceId from, DeviceId to, TimePoint ready, Duration time) {
    BaechiBooking b;
    b.send_start = std::max(ready, free_[from]);
    b.send_end = free_[from] = b.send_start + time;
    b.receive_start = std::max(b.send_start, free_[to]);
    b.receive_end = free_[to] = b.receive_start + time;
    arrival_[at(to, t)] = b.receive_end;
    if (!bookings_.empty()) bookings_[at(to, t)] = b;
    return b;
  }

  /// When it would arrive. Q9: nothing is booked, so that two inputs of an op do not see each
  /// other.
  TimePoint estimate(DeviceId from, DeviceId to, TimePoint ready, Duration time) const {
    return std::max(std::max(ready, free_[from]), free_[to]) + time;
  }

 private:
  static constexpr TimePoint absent = TimePoint::min();
  std::size_t at(DeviceId d, TensorId t) const { return index(t) * devices_ + index(d); }

  std::size_t devices_;
  IdVector<DeviceId, TimePoint> free_;   // end of the last booking on each channel
  std::vector<TimePoint> arrival_;       // [tensors, devices]
  std::vector<BaechiBooking> bookings_;  // empty, or [tensors, devices]
};

}  // namespace baechi
