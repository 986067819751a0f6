/// The tensors waiting to cross, and which channels are taken.
#pragma once
#include <algorithm>
#include <functional>
#include <optional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

#include "sim/engine/channels.h"
#include "sim/engine/device_set.h"
#include "sim/graph/op_graph.h"

namespace baechi {

inline constexpr EdgeId no_edge{~std::uint32_t{0}};

/// A tensor on a device other than its producer's: first to be sent, then held for its readers.
struct Copy {
  TimePoint produced{};
  TimePoint sent{};  ///< of a staged transfer
  TensorId tensor{};
  DeviceId dst{};
  std::uint32_t readers = 0;      ///< that have not ended
  EdgeId first_reader = no_edge;  ///< head of a list

  /// Who goes first. Copies that compare equal (a tensor not cached) go as they were made.
  auto turn() const { return std::tuple(produced, tensor, dst); }
};

/// One queue per sending device, ordered by turn(); EngineOptions::transfers says which channels a
/// transfer needs.
class TransferQueues {
 public:
  TransferQueues(std::size_t num_devices, const EngineOptions& options)
      : channels_(options.transfers, num_devices),
        overlap_(options.overlap),
        taken_(channels_.num_channels(), 0),
        devices_(num_devices, Device{.waiting = DeviceSet(num_devices)}),
        to_receive_(num_devices),
        to_try_(num_devices) {}

  std::uint32_t add_copy(const Copy& copy) {
    copies_.push_back(copy);
    return static_cast<std::uint32_t>(copies_.size() - 1);
  }
  Copy& copy(std::uint32_t id) { return copies_[id]; }

  void enqueue(DeviceId src, std::uint32_t id) {
    Device& s = devices_[src];
    if (s.head == s.queue.size()) {
      s.queue.clear();
      s.head = 0;
    }
    s.queue.push_back(id);
    for (std::size_t i = s.queue.size() - 1;
         i > s.head && copies_[id].turn() < copies_[s.queue[i - 1]].turn(); --i)
      std::swap(s.queue[i], s.queue[i - 1]);
    to_try_.insert(src);
  }

  /// Whether `d` is sending or receiving.
  bool moving(DeviceId d) const { return devices_[d].moving > 0; }

  /// A staged transfer, copy `id`, has left its sender for the host's memory.
  void leave(DeviceId src, std::uint32_t id, TimePoint now) {
    --devices_[src].moving;
    taken_[channels_.sending(src)] = false;
    wake(src);
    const DeviceId dst = copies_[id].dst;
    devices_[dst].in_host.push({now, copies_[id].turn(), id});
    to_receive_.insert(dst);
  }

  /// A staged transfer to `dst` is over.
  void arrive(DeviceId dst) {
    --devices_[dst].moving;
    taken_[channels_.receiving(dst)] = false;
    wake(dst);
    to_receive_.insert(dst);
  }

  /// Of what waits in the host's memory, starts what can be received: by device, in the order in
  /// which it came there, then in turn. `start(copy id)`.
  void receive_all(auto start) {
    to_receive_.drain([&](DeviceId dst) {
      Device& d = devices_[dst];
      char& taken = taken_[channels_.receiving(dst)];
      if (taken || d.in_host.empty()) return;
      const std::uint32_t id = d.in_host.top().copy;
      d.in_host.pop();
      taken = true;
      start(id);
    });
  }

  void end(DeviceId src, DeviceId dst) {
    --devices_[src].moving;
    --devices_[dst].moving;
    if (channels_.limited()) {
      taken_[channels_.sending(src)] = false;
      taken_[channels_.receiving(dst)] = false;
    }
    if (channels_.num_channels() == 1) {  // the one bus: anyone may wait for it
      for (const DeviceId d : devices_.ids()) wake(d);
      return;
    }
    wake(src);
    wake(dst);
  }

  /// Without overlap: `d` is free to move tensors again.
  void compute_ended(DeviceId d) { wake(d); }

  /// Starts every transfer that can start, in turn. `computing(device)`; `start(copy id)` may
  /// refuse by returning false, which ends the matter.
  void start_all(auto computing, auto start) {
    candidates_.clear();
    to_try_.drain([&](DeviceId s) { add_candidates(s); });
    if (candidates_.size() > 1) {
      std::ranges::stable_sort(candidates_, [&](const auto& a, const auto& b) {
        return copies_[a.second].turn() < copies_[b.second].turn();
      });
    }
    for (const auto& [src, id] : candidates_) {
      const DeviceId dst = copies_[id].dst;
      Device& s = devices_[src];
      // Where several transfers of one sender are candidates, an earlier one may have to wait.
      if (s.queue[s.head] != id) continue;
      if (const auto blocked = blocked_by(src, dst, computing)) {
        devices_[*blocked].waiting.insert(src);
        continue;
      }
      ++s.moving;
      ++devices_[dst].moving;
      if (channels_.limited()) taken_[channels_.sending(src)] = true;
      if (channels_.limited() && !channels_.staged()) taken_[channels_.receiving(dst)] = true;
      ++s.head;
      if (!start(id)) return;
    }
  }

 private:
  /// A copy in the host's memory.
  struct InHost {
    TimePoint since{};
    decltype(Copy{}.turn()) turn{};
    std::uint32_t copy = 0;
    friend bool operator>(const InHost& a, const InHost& b) {
      return std::tie(a.since, a.turn, a.copy) > std::tie(b.since, b.turn, b.copy);
    }
  };
  struct Device {
    std::vector<std::uint32_t> queue{};  // copy ids, from `head` on
    std::size_t head = 0;
    std::uint32_t moving = 0;  // transfers it sends or receives
    DeviceSet waiting;         // senders whose first transfer waits for this device
    std::priority_queue<InHost, std::vector<InHost>, std::greater<>> in_host{};
  };

  void wake(DeviceId d) {
    to_try_.insert(d);
    to_try_.insert(devices_[d].waiting);
    devices_[d].waiting.clear();
  }

  /// The transfers of `s` that might start now: its first, or all if channels never run out.
  void add_candidates(DeviceId s) {
    const Device& sender = devices_[s];
    const std::size_t all = sender.queue.size();
    const std::size_t last = channels_.limited() ? std::min(sender.head + 1, all) : all;
    for (std::size_t i = sender.head; i < last; ++i) candidates_.emplace_back(s, sender.queue[i]);
  }

  /// The device that keeps a transfer from starting, if one does.
  std::optional<DeviceId> blocked_by(DeviceId src, DeviceId dst, auto computing) const {
    if (channels_.limited()) {
      if (taken_[channels_.sending(src)]) return src;
      if (!channels_.staged() && taken_[channels_.receiving(dst)]) return dst;
    }
    if (!overlap_ && computing(src)) return src;
    if (!overlap_ && computing(dst)) return dst;
    return std::nullopt;
  }

  ChannelMap channels_;
  bool overlap_;
  std::vector<char> taken_;  // [num_channels]
  std::vector<Copy> copies_;
  IdVector<DeviceId, Device> devices_;
  DeviceSet to_receive_;  // devices that may have something to receive from the host
  DeviceSet to_try_;      // senders whose first transfer may have become possible
  std::vector<std::pair<DeviceId, std::uint32_t>> candidates_;
};

}  // namespace baechi
