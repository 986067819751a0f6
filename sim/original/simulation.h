/// A bit-exact reimplementation of the original's simulator, its "virtual scheduler", and of its
/// channels.
#pragma once
#include "sim/original/graph.h"
#include "sim/problem/step.h"

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
constexpr TimePoint later(TimePoint a, TimePoint b) { return a < b ? b : a; }

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

/// The result of a step, and the memory in use on each device afterwards.
struct Step {
  StepResult result;
  IdVector<DeviceId, Bytes> final_memory;  ///< [num_devices]
};

/// One step of `graph` on `devices` devices. Ops are popped from one queue in order of (ready,
/// Op::topo). Each starts when it is ready and its device is free. Its tensors are booked when it
/// is popped, for its readers in out-edge order (Q8, Q23: not in order of time). Memory changes
/// when ops are popped (Q23). Outputs and workspace are allocated when an op starts, and workspace
/// is freed at once. Outputs, except their persistent part, are freed when the last reader is
/// popped (Q6). Received copies take no memory (Q7). `placement` covers the graph. `held`: memory
/// in use on each device before the step; may be negative (Q12: left by the original's adjusters).
/// [num_devices], or empty for none.
Step simulate(const Graph& graph, const IdVector<OpId, DeviceId>& placement, std::size_t devices,
              Log* log = nullptr, const IdVector<DeviceId, Bytes>& held = {});

/// simulate() for many placements of one graph. Not thread-safe.
class Simulator {
 public:
  Simulator(const Graph& graph, std::size_t devices);  ///< `graph` outlives it
  ~Simulator();
  Simulator(Simulator&&) noexcept;

  /// The result is valid until the next call. Observers see a transfer from the start of its
  /// sending to the end of its receiving; a tensor that the device already has is not reported.
  const Step& run(const IdVector<OpId, DeviceId>& placement, Log* log,
                  std::span<StepObserver* const> observers,
                  const IdVector<DeviceId, Bytes>& held = {});

  class Simulation;

 private:
  std::unique_ptr<Simulation> simulation_;
};

}  // namespace baechi::original
