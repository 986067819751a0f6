/// Queues of waiting transfers, channels in use, and the NICs of nodes.
#pragma once
#include <queue>
#include <tuple>

#include "sim/engine/channels.h"
#include "sim/error.h"

namespace baechi {

/// A transfer between nodes holds any free NIC of each node for its length. Transfers within a
/// node, or in a cluster without nodes, hold none.
class NetworkInterfaces {
 public:
  explicit NetworkInterfaces(const Cluster& cluster) : cluster_(cluster) {
    for (const NodeId n : id_range<NodeId>(0, cluster.num_nodes()))
      nodes_.push_back({.nics = cluster.node(n).nics, .waiting = DeviceSet(cluster.num_devices())});
  }

  void reset() {
    for (NodeState& node : nodes_) {
      node.sending = node.receiving = 0;
      node.waiting.clear();
    }
  }

  /// Takes the NICs of a transfer from `src` to `dst`. If one of the nodes has no free NIC, returns
  /// false and remembers that `src` waits.
  bool take(DeviceId src, DeviceId dst) {
    if (one_node(src, dst)) return true;
    NodeState& from = node_of(src);
    NodeState& to = node_of(dst);
    if (from.sending == from.nics || to.receiving == to.nics) {
      (from.sending == from.nics ? from : to).waiting.insert(src);
      return false;
    }
    ++from.sending;
    ++to.receiving;
    return true;
  }

  /// The transfer has ended: adds the devices that waited for a NIC of its nodes to `to_try`.
  void give_back(DeviceId src, DeviceId dst, DeviceSet& to_try) {
    if (one_node(src, dst)) return;
    --node_of(src).sending;
    --node_of(dst).receiving;
    for (NodeState* node : {&node_of(src), &node_of(dst)}) {
      to_try.insert(node->waiting);
      node->waiting.clear();
    }
  }

 private:
  struct NodeState {
    std::uint32_t nics = 0, sending = 0, receiving = 0;
    DeviceSet waiting{};  // senders whose first transfer lacks a NIC of this node
  };

  bool one_node(DeviceId a, DeviceId b) const { return cluster_.node_of(a) == cluster_.node_of(b); }
  NodeState& node_of(DeviceId d) { return nodes_[cluster_.node_of(d)]; }

  const Cluster& cluster_;
  IdVector<NodeId, NodeState> nodes_;
};

inline constexpr EdgeId no_edge{~std::uint32_t{0}};

/// A tensor sent from its producer's device to another.
struct alignas(64) Transfer {
  TimePoint produced{};
  Duration time{};  ///< length of the transfer
  Bytes size{};
  TensorId tensor{};
  DeviceId src{}, dst{};
  EdgeId first_reader = no_edge;  ///< head of the list of its readers
  std::uint32_t holding = 0;      ///< its copy's id in Holdings

  /// Queue order. Several transfers of one tensor (no cache) go in the order of their edges.
  friend bool operator<(const Transfer& a, const Transfer& b) {
    if (a.produced != b.produced) return a.produced < b.produced;
    return std::tie(a.tensor, a.dst, a.first_reader) < std::tie(b.tensor, b.dst, b.first_reader);
  }
  using Order = std::tuple<TimePoint, TensorId, DeviceId, EdgeId>;
  Order order() const { return {produced, tensor, dst, first_reader}; }  ///< the key of operator<
};

/// One queue per sending device, in the order of Transfer's operator <. EngineOptions::transfers
/// decides which channels a transfer needs. Ids of transfers that have arrived are reused.
/// `usual`: one node, at most 64 devices, overlap, and sequential or duplex channels.
template <bool usual>
class TransferQueues {
  using Devices = IdSet<DeviceId, usual>;

 public:
  /// The cluster outlives this. NICs do not limit Transfers::parallel.
  TransferQueues(const Cluster& cluster, const EngineOptions& options)
      : limited_(options.transfers != Transfers::parallel),
        staged_(options.transfers == Transfers::staged),
        shared_(options.transfers == Transfers::shared),
        overlap_(options.overlap),
        devices_(cluster.num_devices(), Device{.waiting = Devices(cluster.num_devices())}),
        in_host_(cluster.num_devices()),
        to_receive_(cluster.num_devices()),
        to_try_(cluster.num_devices()) {
    if (cluster.num_nodes() > 1 && limited_) nics_.emplace(cluster);
    const ChannelMap channels(options.transfers, cluster.num_devices());
    taken_.assign(channels.num_channels(), 0);
    if (!limited_) return;
    for (const DeviceId d : devices_.ids()) {
      devices_[d].sending = &taken_[channels.sending(d)];
      devices_[d].receiving = &taken_[channels.receiving(d)];
    }
  }

  /// Empties all queues and frees all channels.
  void reset() {
    std::ranges::fill(taken_, 0);
    if (nics_) nics_->reset();
    transfers_.clear();
    free_.clear();
    for (Device& d : devices_) {
      d.queue.clear();
      d.head = 0;
      d.moving = 0;
      d.waiting.clear();
    }
    for (auto& waiting : in_host_) waiting = {};
    to_receive_.clear();
    to_try_.clear();
  }

  /// The id of a new transfer.
  std::uint32_t add() {
    if (free_.empty()) {
      free_.push_back(static_cast<std::uint32_t>(transfers_.size()));
      transfers_.emplace_back();
    }
    const std::uint32_t id = free_.back();
    free_.pop_back();
    return id;
  }
  Transfer& operator[](std::uint32_t id) { return transfers_[id]; }

  /// The transfer has arrived: its id can be reused.
  void drop(std::uint32_t id) { free_.push_back(id); }

  void enqueue(std::uint32_t id) {
    const Transfer& transfer = transfers_[id];
    Device& s = devices_[transfer.src];
    std::size_t place = s.queue.size();
    s.queue.push_back(id);
    for (; place > s.head && transfer < transfers_[s.queue[place - 1]]; --place)
      std::swap(s.queue[place], s.queue[place - 1]);
    if (!limited() || (place == s.head && !*s.sending)) to_try_.insert(transfer.src);
  }

  /// Whether `d` is sending or receiving.
  bool moving(DeviceId d) const { return devices_[d].moving > 0; }

  /// Staged transfer `id` has left its sender for the host's memory.
  void leave(std::uint32_t id, TimePoint now) {
    const auto [src, dst] = std::pair(transfers_[id].src, transfers_[id].dst);
    --devices_[src].moving;
    *devices_[src].sending = false;
    wake(src);
    in_host_[dst].push({now, transfers_[id].order(), id});
    to_receive_.insert(dst);
  }

  /// A staged transfer to `dst` has ended.
  void arrive(DeviceId dst) {
    --devices_[dst].moving;
    *devices_[dst].receiving = false;
    wake(dst);
    to_receive_.insert(dst);
  }

  /// Starts the second half of staged transfers: on each device whose receiving channel is free,
  /// the tensor that reached host memory first (ties: queue order). Calls `start(transfer id)`.
  void receive_all(auto start) {
    to_receive_.drain([&](DeviceId dst) {
      char& taken = *devices_[dst].receiving;
      if (taken || in_host_[dst].empty()) return;
      const std::uint32_t id = in_host_[dst].top().id;
      in_host_[dst].pop();
      taken = true;
      start(id);
    });
  }

  void end(DeviceId src, DeviceId dst) {
    Device& s = devices_[src];
    Device& r = devices_[dst];
    --s.moving;
    --r.moving;
    if (limited()) *s.sending = *r.receiving = false;
    if constexpr (!usual)
      if (nics_) nics_->give_back(src, dst, to_try_);
    if (shared()) {  // any device may wait for the bus
      for (const DeviceId d : devices_.ids()) wake(d);
      return;
    }
    wake(src);
    wake(dst);
  }

  /// Without overlap: `d` is free to move tensors again.
  void compute_ended(DeviceId d) { wake(d); }

  /// Starts every transfer that can start, in the order of Transfer's operator <.
  /// `computing(device)` says whether an op runs there. If `start(transfer id)` returns false, no
  /// further transfer is started.
  void start_all(auto computing, auto start) {
    if (to_try_.empty()) return;
    candidates_.clear();
    to_try_.drain([&](DeviceId s) { add_candidates(s, computing); });
    if (candidates_.size() > 1)
      std::ranges::sort(candidates_, [&](std::uint32_t a, std::uint32_t b) {
        return transfers_[a] < transfers_[b];
      });
    for (const std::uint32_t id : candidates_) {
      const auto [src, dst] = std::pair(transfers_[id].src, transfers_[id].dst);
      Device& s = devices_[src];
      Device& r = devices_[dst];
      // If an earlier candidate of the same sender had to wait, this one waits, too.
      if (s.idle() || s.queue[s.head] != id) continue;
      if ((limited() && *s.sending) || (!overlap() && computing(src))) continue;
      if ((limited() && !staged() && *r.receiving) || (!overlap() && computing(dst))) {
        r.waiting.insert(src);
        continue;
      }
      if (shares_nics() && !nics_->take(src, dst)) continue;
      ++s.moving;
      ++r.moving;
      if (limited()) *s.sending = true;
      if (limited() && !staged()) *r.receiving = true;
      if (++s.head == s.queue.size()) {
        s.queue.clear();
        s.head = 0;
      }
      if (!start(id)) return;
    }
  }

 private:
  /// A transfer whose tensor is in the host's memory.
  struct InHost {
    TimePoint since{};
    Transfer::Order order{};
    std::uint32_t id = 0;
    friend bool operator>(const InHost& a, const InHost& b) {
      return std::tie(a.since, a.order) > std::tie(b.since, b.order);
    }
  };
  struct alignas(64) Device {
    std::vector<std::uint32_t> queue{};  // transfer ids, from `head` on
    std::size_t head = 0;
    std::uint32_t moving = 0;                       // transfers it sends or receives
    char *sending = nullptr, *receiving = nullptr;  // into taken_, if limited
    Devices waiting;  // senders whose first transfer waits for this device
    bool idle() const { return queue.empty(); }
  };

  bool limited() const { return usual || limited_; }
  bool staged() const { return !usual && staged_; }
  bool shared() const { return !usual && shared_; }
  bool overlap() const { return usual || overlap_; }
  bool shares_nics() const { return !usual && nics_; }

  void wake(DeviceId d) {
    Device& device = devices_[d];
    if (!device.idle()) to_try_.insert(d);
    to_try_.insert(device.waiting);
    device.waiting.clear();
  }

  /// The transfers of `s` that might start now: the head of its queue; with unlimited channels, all
  /// up to the first that waits for a computing device.
  void add_candidates(DeviceId s, auto computing) {
    const Device& sender = devices_[s];
    if (sender.idle()) return;
    if (limited()) return candidates_.push_back(sender.queue[sender.head]);
    for (std::size_t i = sender.head; i < sender.queue.size(); ++i) {
      candidates_.push_back(sender.queue[i]);
      if (!overlap() && (computing(s) || computing(transfers_[sender.queue[i]].dst))) return;
    }
  }

  bool limited_, staged_, shared_, overlap_;
  std::optional<NetworkInterfaces> nics_;  // with several nodes
  std::vector<char> taken_;                // [num_channels]; devices_ points into it
  std::vector<Transfer> transfers_;
  std::vector<std::uint32_t> free_;  // ids
  IdVector<DeviceId, Device> devices_;
  /// By receiver: staged transfers that are in host memory.
  IdVector<DeviceId, std::priority_queue<InHost, std::vector<InHost>, std::greater<>>> in_host_;
  Devices to_receive_;                     // devices that may be able to receive from the host
  Devices to_try_;                         // senders whose first transfer may be able to start
  std::vector<std::uint32_t> candidates_;  // transfer ids
};

}  // namespace baechi
