#include <fmt/format.h>

#include <vector>

#include "sim/cluster/collectives.h"
#include "sim/engine/simulation.h"
#include "sim/error.h"
#include "sim/options.h"
#include "sim/saturated.h"

namespace baechi {
namespace {

/// The sends of a collective as ops without time, which pass tensors on. Op (i, k) is rank i after
/// its k-th receipt.
class UnrolledSends {
 public:
  UnrolledSends(std::span<const DeviceId> devices, std::size_t rounds, const Cluster& cluster)
      : devices_(devices), cluster_(cluster) {
    for (std::size_t k = 0; k <= rounds; ++k)
      for (std::size_t i = 0; i < devices.size(); ++i)
        ops_.push_back(builder_.add_op({.name = fmt::format("{}/{}", i, k)}));
  }

  /// Rank `from` after receipt `k` sends `size` to `to`, whose receipt `received` it is.
  void send(std::size_t from, std::size_t k, std::size_t to, std::size_t received, Bytes size) {
    const Link& link = cluster_.link(devices_[from], devices_[to]);
    bytes_ = saturated_sum(bytes_, size);
    time_ = saturated_sum(time_, saturated_sum(size / link.bandwidth, link.latency));
    builder_.add_edge(builder_.add_tensor(op(from, k), size), op(to, received));
  }

  Duration simulated() && {
    // What the engine could not add up is not simulated.
    if (bytes_.count >= count_limit || time_.count() >= count_limit) return Duration{count_limit};
    IdVector<OpId, OpId> renumbered;
    const OpGraph graph = std::move(builder_).build(&renumbered);
    Placement placement;
    placement.device.assign(graph.num_ops(), DeviceId{});
    for (std::size_t v = 0; v < ops_.size(); ++v)
      placement.device[renumbered[ops_[v]]] = devices_[v % devices_.size()];
    const ProfiledCosts costs(graph, cluster_);
    const EngineOptions options{.transfers = Transfers::duplex, .count_memory = false};
    return simulate({graph, cluster_, costs, options}, placement).makespan;
  }

 private:
  OpId op(std::size_t rank, std::size_t k) const { return ops_[k * devices_.size() + rank]; }

  std::span<const DeviceId> devices_;
  const Cluster& cluster_;
  Bytes bytes_{};    // of all sends, saturated
  Duration time_{};  // of all sends one after the other, saturated
  OpGraphBuilder builder_;
  std::vector<OpId> ops_;  // [rounds + 1, ranks]
};

/// In each step of a ring every rank passes a part of S / n on to the next rank. broadcast passes n
/// parts along the ring, one behind the other: no pipeline of finite parts is as fast as ring's
/// formula. In step k of all_to_all rank i sends to rank i + k.
class Steps final : public CollectiveModel {
 public:
  Duration time(const Collective& c, std::span<const DeviceId> devices,
                const Cluster& cluster) const override {
    const std::size_t n = devices.size();
    if (std::max<std::size_t>(c.ranks, c.members) > n)
      throw InputError(fmt::format(
          "collectives: steps needs every rank, and {} of the {} ranks of {} are simulated", n,
          c.ranks, to_text(c.kind)));
    if (n < 2) return Duration{};
    switch (c.kind) {
      case CollectiveKind::all_reduce:
        return ring(2 * (n - 1), c.bytes, devices, cluster);
      case CollectiveKind::reduce_scatter:
      case CollectiveKind::all_gather:
        return ring(n - 1, c.bytes, devices, cluster);
      case CollectiveKind::all_to_all:
        return all_to_all(c.bytes, devices, cluster);
      case CollectiveKind::broadcast:
        return broadcast(c.bytes, devices, cluster);
      case CollectiveKind::send_recv:
        break;
    }
    UnrolledSends sends(devices.first(2), 1, cluster);
    sends.send(0, 0, 1, 1, c.bytes);
    return std::move(sends).simulated();
  }

 private:
  /// The p-th of n parts, whose sizes differ by at most a byte.
  static Bytes part(Bytes bytes, std::size_t p, std::size_t n) {
    const auto parts = static_cast<std::int64_t>(n);
    return {bytes.count / parts + (static_cast<std::int64_t>(p) < bytes.count % parts ? 1 : 0)};
  }

  static Duration ring(std::size_t steps, Bytes bytes, std::span<const DeviceId> devices,
                       const Cluster& cluster) {
    const std::size_t n = devices.size();
    UnrolledSends sends(devices, steps, cluster);
    for (std::size_t k = 0; k < steps; ++k)
      for (std::size_t i = 0; i < n; ++i)
        sends.send(i, k, (i + 1) % n, k + 1, part(bytes, (i + n - k % n) % n, n));
    return std::move(sends).simulated();
  }

  static Duration all_to_all(Bytes bytes, std::span<const DeviceId> devices,
                             const Cluster& cluster) {
    const std::size_t n = devices.size();
    UnrolledSends sends(devices, n - 1, cluster);
    for (std::size_t k = 0; k + 1 < n; ++k)
      for (std::size_t i = 0; i < n; ++i)
        sends.send(i, k, (i + k + 1) % n, k + 1, part(bytes, (i + k + 1) % n, n));
    return std::move(sends).simulated();
  }

  static Duration broadcast(Bytes bytes, std::span<const DeviceId> devices,
                            const Cluster& cluster) {
    const std::size_t n = devices.size();
    UnrolledSends sends(devices, n, cluster);
    for (std::size_t p = 0; p < n; ++p)
      for (std::size_t i = 0; i + 1 < n; ++i)
        sends.send(i, i == 0 ? 0 : p + 1, i + 1, p + 1, part(bytes, p, n));
    return std::move(sends).simulated();
  }
};

}  // namespace

std::shared_ptr<const CollectiveModel> make_steps(Options&) {
  return std::make_shared<const Steps>();
}

}  // namespace baechi
