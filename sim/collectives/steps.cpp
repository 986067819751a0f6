#include "sim/engine/simulation.h"
#include "sim/options.h"

namespace baechi {
namespace {

/// A collective as a graph of zero-time ops connected by its sends. Op (i, k) is rank i after its
/// k-th receipt.
class UnrolledSends {
 public:
  UnrolledSends(std::span<const DeviceId> devices, const Cluster& cluster)
      : devices_(devices), cluster_(cluster) {}

  void add(const CollectiveSend& send) {
    const Link& link = cluster_.link(devices_[send.from], devices_[send.to]);
    bytes_ = saturated_sum(bytes_, send.size);
    time_ = saturated_sum(time_, saturated_sum(send.size / link.bandwidth, link.latency));
    const OpId from = op(send.from, send.after), to = op(send.to, send.receipt);
    builder_.add_edge(builder_.add_tensor(from, send.size), to);
  }

  Duration simulated() && {
    // Beyond the engine's 62-bit limit.
    if (bytes_.count >= count_limit || time_.count() >= count_limit) return Duration{count_limit};
    IdVector<OpId, OpId> renumbered;
    const OpGraph graph = std::move(builder_).build(&renumbered);
    Placement placement;
    placement.device.assign(graph.num_ops(), DeviceId{});
    for (std::size_t v = 0; v < ops_; ++v)
      placement.device[renumbered[static_cast<OpId>(v)]] = devices_[v % devices_.size()];
    const ProfiledCosts costs(graph, cluster_);
    const EngineOptions options{.transfers = Transfers::duplex, .count_memory = false};
    return simulate({graph, cluster_, costs, options}, placement).makespan;
  }

 private:
  /// Adds ops for all ranks up to that receipt.
  OpId op(std::size_t rank, std::size_t receipt) {
    for (; ops_ < (receipt + 1) * devices_.size(); ++ops_)
      builder_.add_op(
          {.name = fmt::format("{}/{}", ops_ % devices_.size(), ops_ / devices_.size())});
    return static_cast<OpId>(receipt * devices_.size() + rank);
  }

  std::span<const DeviceId> devices_;
  const Cluster& cluster_;
  Bytes bytes_{};    // of all sends, saturated
  Duration time_{};  // of all sends one after the other, saturated
  OpGraphBuilder builder_;
  std::size_t ops_ = 0;
};

/// The simulated time of for_each_send()'s sends. broadcast is a pipeline of parts along the ring,
/// so it is slower than the formula of `ring`, the limit of infinitely small parts.
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
    UnrolledSends sends(devices, cluster);
    for_each_send(c.kind, c.bytes, n, [&](const CollectiveSend& send) { sends.add(send); });
    return std::move(sends).simulated();
  }
};

}  // namespace

std::shared_ptr<const CollectiveModel> make_steps(Options&) {
  return std::make_shared<const Steps>();
}

}  // namespace baechi
