/// The transfers booked for a schedule: which devices hold a tensor, and when others could. For all
/// placers that plan a schedule.
#pragma once

#include "sim/engine/channels.h"
#include "sim/problem/problem.h"

namespace baechi::list {

/// Ops are booked one after the other, each with the transfers of its inputs: find_inputs(), then
/// earliest() of any devices, then book() and schedule() on one of them. The inputs of an op are
/// sent in the order in which they were produced; each transfer starts when its tensor is produced,
/// or when the last booking of a channel it needs ends, whichever is later. Gaps before an earlier
/// booking stay unused.
class BookedTransfers {
 public:
  /// A tensor that an op reads.
  struct Input {
    TimePoint end{};      ///< when its producer ends
    Duration transfer{};  ///< time between any two devices, if uniform_links()
    TensorId tensor{};
    DeviceId src{};  ///< its producer's device; `all_devices` if it needs no transfer
  };
  static constexpr DeviceId all_devices{~std::uint32_t{0}};
  static constexpr DeviceId no_device{~std::uint32_t{0} - 1};
  static constexpr std::uint32_t no_copy = ~std::uint32_t{0};

  /// `mode` replaces problem.engine.transfers.
  BookedTransfers(const Problem& problem, Transfers mode);
  /// Forgets all bookings.
  void clear();

  bool cached() const { return cached_; }
  /// Whether transfers wait for channels.
  bool limited() const { return channels_.limited(); }
  /// Whether a tensor takes the same time between any two devices.
  bool uniform_links() const { return uniform_links_; }

  void schedule(OpId v, DeviceId d, TimePoint end) { producers_[v] = {end, d}; }
  TimePoint end(OpId v) const { return producers_[v].end; }
  /// `no_device` if `v` is not scheduled.
  DeviceId device(OpId v) const { return producers_[v].device; }

  /// Computes inputs(v). All producers of its inputs must be scheduled.
  void find_inputs(OpId v);
  /// The inputs of `v`, in the order in which they are sent.
  std::span<const Input> inputs(OpId v) const {
    return {inputs_.data() + first_input(v), graph_.in_edges(v).size()};
  }

  /// The index of the copy of `t` on `d`, in booking order; no_copy if there is none.
  std::uint32_t find_copy(TensorId t, DeviceId d) const {
    std::uint32_t c = cached_ ? last_copy_[t] : no_copy;
    while (c != no_copy && copies_[c].device != d) c = copies_[c].next;
    return c;
  }
  std::size_t num_copies() const { return copies_.size(); }
  /// Whether `d` needs no transfer of `in`.
  bool holds(DeviceId d, const Input& in) const {
    return in.src == d || in.src == all_devices || find_copy(in.tensor, d) != no_copy;
  }
  /// Calls `found` with each device that produced an input of `v`, perhaps more than once.
  template <class Found>
  void for_each_source(OpId v, Found found) const {
    for (const Input& in : inputs(v))
      if (in.src != all_devices) found(in.src);
  }
  /// As for_each_source(), and with each device that has a copy of an input.
  template <class Found>
  void for_each_holder(OpId v, Found found) const {
    for_each_source(v, found);
    if (!cached_) return;
    for (const Input& in : inputs(v))
      for (std::uint32_t c = last_copy_[in.tensor]; c != no_copy; c = copies_[c].next)
        found(copies_[c].device);
  }
  /// Calls `found` with each device where the inputs of `v` may arrive earlier than on others,
  /// perhaps more than once. Without limited channels, an existing copy is no earlier than a new
  /// one would be.
  template <class Found>
  void for_each_nearer(OpId v, Found found) const {
    channels_.limited() ? for_each_holder(v, found) : for_each_source(v, found);
  }

  /// The earliest time at which all inputs of `v` are produced and on `d`, given the bookings; 0 if
  /// it has no inputs. Calls `sent` with each input that would be sent.
  template <class Sent>
  TimePoint earliest(OpId v, DeviceId d, Sent sent) {
    return deliver(v, d, [&](const Input& in, TimePoint, TimePoint) { sent(in); });
  }
  TimePoint earliest(OpId v, DeviceId d) {
    return earliest(v, d, [](const Input&) {});
  }
  /// As earliest(), and books the transfers. Calls `sent` with each tensor that is sent.
  template <class Sent>
  TimePoint book(OpId v, DeviceId d, Sent sent);
  TimePoint book(OpId v, DeviceId d) {
    return book(v, d, [](TensorId) {});
  }
  /// A lower bound on when the inputs of `v` are on a device that has none of them, whatever else
  /// is booked. Requires uniform_links().
  TimePoint earliest_elsewhere(OpId v) const;

  /// The arrival of the inputs of an op on a device that has none of them: max(sent,
  /// receiver_clock(the device) + received).
  struct PendingInputs {
    static constexpr Duration at_once = Duration::min();  ///< nothing occupies the receiver
    TimePoint
        sent{};  ///< when the senders, and the order of the inputs, would let the last one arrive
    Duration received = at_once;  ///< how long they occupy the receiver's channel
  };
  /// Requires uniform_links(). From call to call an op's `sent` only grows, `received` never
  /// changes.
  PendingInputs pending_inputs(OpId v);
  /// The end of the last booking of the channel through which `d` alone receives; 0 if there is no
  /// such channel.
  TimePoint receiver_clock(DeviceId d) const {
    return own_receivers_ ? clock_[channels_.receiving(d)] : TimePoint{};
  }

 private:
  struct Producer {
    TimePoint end{};
    DeviceId device = no_device;
  };
  /// A tensor on a device other than its producer's.
  struct Copy {
    TimePoint arrival{};
    DeviceId device{};
    std::uint32_t next = no_copy;
  };

  std::size_t first_input(OpId v) const {
    return static_cast<std::size_t>(graph_.in_edges(v).data() - first_in_edge_);
  }
  /// Every transfer uses d's receiving channel; unless it is staged, only the clock of that channel
  /// carries over from one transfer to the next. Calls `sent` with the input and the times when its
  /// sender and its receiver are free again.
  template <class Sent>
  TimePoint deliver(OpId v, DeviceId d, Sent sent);
  TimePoint& sender_clock(DeviceId src);
  /// When `in`, sent to `d`, has left its sender, and when it arrives.
  struct Hop {
    TimePoint left, end;
  };
  Hop hop(const Input& in, DeviceId d, TimePoint receiver);

  const OpGraph& graph_;
  const CostModel& costs_;
  const ChannelMap channels_;
  const bool cached_, uniform_links_, own_receivers_;
  const EdgeId* first_in_edge_;
  std::vector<TimePoint> clock_;        // [num_channels], end of the last booking
  IdVector<OpId, Producer> producers_;  // of scheduled ops
  std::vector<Input> inputs_;           // [num_edges], parallel to the graph's in-edges
  IdVector<TensorId, std::uint32_t>
      last_copy_;  // [num_tensors], heads of the linked lists in copies_
  std::vector<Copy> copies_;
  std::vector<std::pair<DeviceId, TimePoint>> sender_clocks_;  // of one delivery
};

inline BookedTransfers::Hop BookedTransfers::hop(const Input& in, DeviceId d, TimePoint receiver) {
  if (channels_.staged()) {
    const Stages s = stages(costs_, in.tensor, in.src, d);
    TimePoint& sender = sender_clock(in.src);
    sender = std::max(in.end + s.latency, sender) + s.out;
    return {sender, std::max(sender, receiver) + s.in};
  }
  TimePoint start = in.end;
  if (channels_.limited()) start = std::max({start, receiver, clock_[channels_.sending(in.src)]});
  const TimePoint end =
      start + (uniform_links_ ? in.transfer : costs_.transfer(in.tensor, in.src, d));
  return {end, end};
}

template <class Sent>
TimePoint BookedTransfers::deliver(OpId v, DeviceId d, Sent sent) {
  // Inputs are ordered by production: all are produced when the last one is.
  const std::span<const Input> read = inputs(v);
  TimePoint ready = read.empty() ? TimePoint{} : read.back().end;
  const bool limited = channels_.limited();
  TimePoint receiver{};
  if (limited) receiver = clock_[channels_.receiving(d)];
  if (channels_.staged()) sender_clocks_.clear();
  for (const Input& in : read) {
    if (in.src == d || in.src == all_devices) continue;
    if (const std::uint32_t c = find_copy(in.tensor, d); c != no_copy) {
      ready = std::max(ready, copies_[c].arrival);
      continue;
    }
    const auto [left, end] = hop(in, d, receiver);
    if (limited) receiver = end;
    ready = std::max(ready, end);
    sent(in, left, end);
  }
  return ready;
}

template <class Sent>
TimePoint BookedTransfers::book(OpId v, DeviceId d, Sent sent) {
  return deliver(v, d, [&](const Input& in, TimePoint left, TimePoint end) {
    if (channels_.limited()) {
      clock_[channels_.sending(in.src)] = left;
      clock_[channels_.receiving(d)] = end;
    }
    if (cached_) {
      copies_.push_back({end, d, last_copy_[in.tensor]});
      last_copy_[in.tensor] = static_cast<std::uint32_t>(copies_.size() - 1);
    }
    sent(in.tensor);
  });
}

}  // namespace baechi::list
