#include "sim/collectives/collective_models.h"

namespace baechi {
namespace {

/// For N nodes with g ranks each: all_reduce is a reduce_scatter inside the nodes, g concurrent
/// all_reduces of S / g between the nodes, each on an equal share of the NICs (or of
/// `nics_per_group` NICs), and an all_gather inside. reduce_scatter and all_gather are their half
/// of it. broadcast goes from node to node, then inside. all_to_all sends S / n to every other
/// rank, one after the other. With one node, everything is `inside`'s time.
class Hierarchical final : public CollectiveModel {
 public:
  Hierarchical(std::shared_ptr<const CollectiveModel> inside, double nics_per_group)
      : inside_(std::move(inside)), nics_per_group_(nics_per_group) {}

  Duration time(const Collective& c, std::span<const DeviceId> devices,
                const Cluster& cluster) const override {
    const Spread spread = spread_of(c, devices, cluster);
    if (spread.nodes <= 1) return inside_->time(c, devices, cluster);
    const std::int64_t g = spread.per_node;
    const Bytes share = part(c.bytes, g);
    const auto between = [&](CollectiveKind kind) {
      return ring_time(kind, spread.nodes, share, ring_network(spread));
    };
    const auto inside = [&](CollectiveKind kind, Bytes bytes) {
      return slowest_inside(kind, bytes, spread, devices, cluster);
    };
    using Kind = CollectiveKind;
    switch (c.kind) {
      case Kind::all_reduce:
        return saturated_sum(between(Kind::all_reduce),
                             saturated_sum(inside(Kind::reduce_scatter, c.bytes),
                                           inside(Kind::all_gather, c.bytes)));
      case Kind::reduce_scatter:
      case Kind::all_gather:
        return saturated_sum(between(c.kind), inside(c.kind, c.bytes));
      case Kind::broadcast:
        return saturated_sum(ring_time(c.kind, spread.nodes, c.bytes, spread.network(1)),
                             inside(c.kind, c.bytes));
      case Kind::all_to_all:
        return all_to_all(c.bytes, spread, inside);
      case Kind::send_recv:
        break;
    }
    return ring_time(c.kind, spread.ranks, c.bytes, spread.network(1));
  }

 private:
  /// The network share of each of a node's concurrent rings.
  Link ring_network(const Spread& spread) const {
    const std::int64_t g = spread.per_node;
    Link link = spread.network(g);
    if (nics_per_group_ == 0.0 || spread.nodes <= 2 || g == 1) return link;
    const double few = std::min(nics_per_group_, static_cast<double>(spread.nics));
    link.bandwidth = {spread.nic.bandwidth.bytes_per_second *
                      std::min(1.0, few / static_cast<double>(g * spread.sharing))};
    return link;
  }

  static Bytes part(Bytes bytes, std::int64_t of) {
    return {bytes.count / of + (bytes.count % of != 0 ? 1 : 0)};
  }

  static Duration all_to_all(Bytes bytes, const Spread& spread, const auto& inside) {
    const std::int64_t n = spread.ranks, g = spread.per_node;
    const Bytes message = part(bytes, n);
    const Link network = spread.network(g);
    const Duration remote = saturated_sum(message / network.bandwidth, network.latency);
    return saturated_sum(saturated_product(n - g, remote),
                         inside(CollectiveKind::all_to_all, Bytes{message.count * g}));
  }

  /// The time of the intra-node part, on the slowest node.
  Duration slowest_inside(CollectiveKind kind, Bytes bytes, const Spread& spread,
                          std::span<const DeviceId> devices, const Cluster& cluster) const {
    Duration slowest{};
    std::vector<DeviceId> here;
    for (std::size_t i = 0; i < devices.size(); ++i) {
      const NodeId node = cluster.node_of(devices[i]);
      const auto same = [&](DeviceId d) { return cluster.node_of(d) == node; };
      if (std::ranges::any_of(devices.first(i), same)) continue;
      here.clear();
      std::ranges::copy_if(devices, std::back_inserter(here), same);
      const Collective part{.kind = kind,
                            .bytes = bytes,
                            .ranks = static_cast<std::uint32_t>(spread.per_node),
                            .nodes = 1,
                            .members = static_cast<std::uint32_t>(here.size())};
      slowest = std::max(slowest, inside_->time(part, here, cluster));
    }
    return slowest;
  }

  std::shared_ptr<const CollectiveModel> inside_;
  double nics_per_group_;  // 0: all
};

}  // namespace

std::shared_ptr<const CollectiveModel> make_hierarchical(Options& o) {
  const Options::Value* inside =
      o.raw("inside", "the model inside a node: NAME or {model: NAME, ...} [ring]");
  constexpr double most_nics = 1024.0;
  const double few = o.get("nics_per_group", 0.0,
                           "network interfaces of a node, or a part of one, that the rings of "
                           "groups with several ranks on each of more than two nodes use "
                           "together; 0: all",
                           0.0, most_nics);
  return std::make_shared<const Hierarchical>(
      inside == nullptr ? ring_collectives() : make_collectives(*inside), few);
}

}  // namespace baechi
