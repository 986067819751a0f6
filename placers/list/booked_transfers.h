/// Where the tensors of a plan are, and when they would get somewhere else.
#pragma once
#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "sim/engine/channels.h"
#include "sim/problem/problem.h"

namespace baechi::list {

/// A plan grows by ops in the order in which they are started, and by the transfers that each needs
/// for its inputs: sent in the order they were produced, each from the later of its production and
/// the last booking of the channels it needs. Nothing is sent earlier than what is already booked.
class BookedTransfers {
 public:
  /// A tensor that an op reads.
  struct Input {
    TimePoint end{};      ///< of its producer
    Duration transfer{};  ///< between any two devices, if uniform_links()
    TensorId tensor{};
    DeviceId src{};  ///< of its producer; `everywhere` if it needs no transfer
  };
  static constexpr DeviceId everywhere{~std::uint32_t{0}};
  static constexpr std::uint32_t no_copy = ~std::uint32_t{0};

  /// `mode` in place of problem.engine.transfers.
  BookedTransfers(const Problem& problem, Transfers mode);

  bool cached() const { return cached_; }
  /// Whether transfers wait for channels.
  bool limited() const { return channels_.limited(); }
  /// Whether a tensor takes the same time between any two devices.
  bool uniform_links() const { return uniform_links_; }

  void schedule(OpId v, DeviceId d, TimePoint end) { producers_[v] = {end, d}; }
  TimePoint end(OpId v) const { return producers_[v].end; }
  DeviceId device(OpId v) const { return producers_[v].device; }

  /// From now on `v` has inputs(v): whatever it reads has been scheduled.
  void find_inputs(OpId v);
  /// In the order in which they would be sent.
  std::span<const Input> inputs(OpId v) const {
    return {inputs_.data() + first_input(v), graph_.in_edges(v).size()};
  }

  /// Numbered from 0, as they were booked; no_copy if `t` is not cached on `d`.
  std::uint32_t find_copy(TensorId t, DeviceId d) const {
    std::uint32_t c = cached_ ? last_copy_[t] : no_copy;
    while (c != no_copy && copies_[c].device != d) c = copies_[c].next;
    return c;
  }
  std::size_t num_copies() const { return copies_.size(); }
  /// Calls `found` with each device that has an input of `v`; with some twice.
  template <class Found>
  void for_each_source(OpId v, Found found) const {
    for (const Input& in : inputs(v))
      if (in.src != everywhere) found(in.src);
  }
  /// The same, and those with a copy of one.
  template <class Found>
  void for_each_holder(OpId v, Found found) const {
    for_each_source(v, found);
    if (!cached_) return;
    for (const Input& in : inputs(v))
      for (std::uint32_t c = last_copy_[in.tensor]; c != no_copy; c = copies_[c].next)
        found(copies_[c].device);
  }
  /// The devices where the inputs of `v` may be earlier than on others: without channels to wait
  /// for, a copy is nowhere earlier than another would be. With some twice.
  template <class Found>
  void for_each_nearer(OpId v, Found found) const {
    channels_.limited() ? for_each_holder(v, found) : for_each_source(v, found);
  }

  /// When the inputs of `v` that are produced elsewhere would all be on `d`, after what is booked;
  /// the beginning of time if there are none.
  TimePoint arrival(OpId v, DeviceId d) {
    return deliver(v, d, [](const Input&, TimePoint, TimePoint) {});
  }
  /// The same, and books it. Calls `sent` with each tensor that takes a transfer.
  template <class Sent>
  TimePoint book(OpId v, DeviceId d, Sent sent);
  /// Before when the inputs of `v` cannot be on a device that has none of them, whatever else is
  /// booked; if uniform_links().
  TimePoint earliest_elsewhere(OpId v) const;

  /// The inputs of an op on their way to a device that has none of them: there they are at
  /// max(sent, receiver_clock(the device) + received).
  struct OnTheirWay {
    static constexpr Duration at_once = Duration::min();  ///< nothing occupies the receiver
    TimePoint sent{};             ///< as far as their senders and each other go
    Duration received = at_once;  ///< how long they occupy the receiver
  };
  /// If uniform_links(). `sent` only grows, `received` is the same for ever.
  OnTheirWay on_their_way(OpId v);
  /// End of the last booking of the channel through which `d` alone receives; where there is none,
  /// the beginning of time.
  TimePoint receiver_clock(DeviceId d) const {
    return own_receivers_ ? clock_[channels_.receiving(d)] : TimePoint{};
  }

 private:
  struct Producer {
    TimePoint end{};
    DeviceId device{};
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
  /// Every transfer involves d's receiving channel, so but for staged ones its clock alone carries
  /// over from one to the next. Calls `sent` with the input and when its sender and its receiver
  /// are done with it.
  template <class Sent>
  TimePoint deliver(OpId v, DeviceId d, Sent sent);
  TimePoint& sender_clock(DeviceId src);
  /// When `in`, sent to `d`, has left its sender, and when it is there.
  struct Hop {
    TimePoint left, end;
  };
  Hop hop(const Input& in, DeviceId d, TimePoint receiver);

  const OpGraph& graph_;
  const CostModel& costs_;
  const ChannelMap channels_;
  const bool cached_, uniform_links_, own_receivers_;
  const EdgeId* first_in_edge_;
  std::vector<TimePoint> clock_;                 // [num_channels], end of the last booking
  IdVector<OpId, Producer> producers_;           // of scheduled ops
  std::vector<Input> inputs_;                    // [num_edges], beside the graph's in-edges
  IdVector<TensorId, std::uint32_t> last_copy_;  // into copies_, a list
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
  TimePoint ready{};
  const bool limited = channels_.limited();
  TimePoint receiver{};
  if (limited) receiver = clock_[channels_.receiving(d)];
  if (channels_.staged()) sender_clocks_.clear();
  for (const Input& in : inputs(v)) {
    if (in.src == d || in.src == everywhere) continue;
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
