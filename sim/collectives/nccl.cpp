#include <cmath>

#include "sim/collectives/collective_models.h"

namespace baechi {
namespace {

constexpr double us = 1e3;  // in ns

/// One number for each of the protocols LL, LL128 and Simple.
using PerProtocol = std::array<double, 3>;
constexpr std::size_t simple = 2;

/// Latencies in us. Source: NCCL, src/graph/tuning.cc, the tables of NCCL 2.8 to 2.18.
struct Latencies {
  PerProtocol ring, tree;
};
constexpr Latencies base{{3.6, 10.0, 8.4}, {4.4, 4.4, 0.0}};
constexpr Latencies nvlink_hop{{0.47, 1.9, 3.4}, {0.52, 1.2, 28.0}};
constexpr Latencies pcie_hop{{1.0, 2.5, 5.7}, {1.0, 1.9, 28.0}};
constexpr Latencies network_hop{{2.7, 4.0, 9.6}, {5.0, 8.5, 50.0}};
constexpr double plateau = 1.9;  // factor on the latency of ring, Simple, over several nodes
/// Bandwidth efficiency of each protocol: LL sends a flag with every 4 bytes and LL128 with every
/// 120; NCCL's tuning has slightly lower values.
constexpr PerProtocol ring_share{0.25, 0.92, 1.0};
constexpr double tree_share = 0.92;
constexpr PerProtocol tree_inside{1.0 / 3.8, 7.0 / 9.0, 1.0};
constexpr PerProtocol tree_between{1.0 / 3.8, 120.0 / 128.0, 1.0};

/// Efficiency of trees by size: 64 B, 128 B, ... 256 MiB. Source: treeCorrectionFactor in the same
/// file.
constexpr std::array<std::array<double, 23>, 3> tree_by_size{
    {{1.0, 1.0, 1.0, 1.0, .9, .8, .7, .7,  .7,  .7,  .6, .5,
      .4,  .4,  .5,  .6,  .7, .8, .9, 1.0, 1.0, 1.0, 1.0},
     {1.0, 1.0, 1.0, 1.0, 1.0, .9, .8, .8, .8, .7,  .6, .6,
      .6,  .6,  .6,  .6,  .8,  .9, .9, .9, .9, 1.0, 1.0},
     {.9, .9, .9, .9, .9, .9, .9, .8, .7, .6, .6, .5, .5, .5, .5, .6, .7, .8, .7, .7, .8, .9, .9}}};

struct NcclOptions {
  bool nvlink = true;
  double inside = 0.8, network = 1.0;  // fractions of the line rates
};

/// NCCL's own tuning model, latency + size / bandwidth, by which it chooses algorithm and protocol,
/// applied to line rates.
class Nccl final : public CollectiveModel {
 public:
  explicit Nccl(NcclOptions options) : options_(options) {}

  Duration time(const Collective& c, std::span<const DeviceId> devices,
                const Cluster& cluster) const override {
    const Spread spread = spread_of(c, devices, cluster);
    if (spread.ranks < 2) return Duration{};
    const Rates rates = rates_of(spread, devices, cluster);
    double least = ring(c, spread, rates, simple);
    for (std::size_t p = 0; p < simple; ++p) least = std::min(least, ring(c, spread, rates, p));
    if (c.kind == CollectiveKind::all_reduce)
      for (std::size_t p = 0; p <= simple; ++p) least = std::min(least, tree(c, spread, rates, p));
    return Duration{saturated(std::ceil(least))};
  }

 private:
  /// Bus bandwidths in bytes per ns: of a device inside its node, of all NICs of a node.
  struct Rates {
    double inside = 0.0, network = 0.0;
  };

  Rates rates_of(const Spread& spread, std::span<const DeviceId> devices,
                 const Cluster& cluster) const {
    Rates rates;
    double line = spread.inside.bandwidth.bytes_per_second;
    if (cluster.num_nodes() > 0 && spread.per_node > 1) {
      const Node& node = cluster.node(cluster.node_of(devices.front()));
      const double wired = node.wires.empty() ? 0.0
                                              : rings_of(devices, spread.per_node, cluster)
                                                    .bus(spread.per_node, node.inside.bandwidth)
                                                    .bytes_per_second;
      if (wired > 0.0) line = wired;
    }
    rates.inside = options_.inside * line / 1e9;
    rates.network = options_.network * spread.nic.bandwidth.bytes_per_second *
                    static_cast<double>(spread.nics) / static_cast<double>(spread.sharing) / 1e9;
    return rates;
  }

  const Latencies& inside_hop() const { return options_.nvlink ? nvlink_hop : pcie_hop; }

  double ring(const Collective& c, const Spread& spread, const Rates& rates,
              std::size_t protocol) const {
    const auto n = static_cast<double>(spread.ranks);
    const bool one_node = spread.nodes == 1;
    const bool both_ways = c.kind == CollectiveKind::all_reduce;
    double steps = n - 1.0, moved = (n - 1.0) / n,
           network_steps = static_cast<double>(spread.nodes) - 1.0;
    if (both_ways) steps *= 2.0, moved *= 2.0, network_steps *= 2.0;
    if (c.kind == CollectiveKind::broadcast) moved = 1.0;
    if (c.kind == CollectiveKind::send_recv)
      steps = 1.0, moved = 1.0, network_steps = one_node ? 0.0 : 1.0;
    double bus = spread.per_node == 1 ? rates.network : rates.inside;
    if (!one_node) bus = std::min(bus, rates.network);
    double latency = base.ring[protocol] + (steps - network_steps) * inside_hop().ring[protocol] +
                     network_steps * network_hop.ring[protocol];
    if (protocol == simple && !one_node && both_ways) latency *= plateau;
    const auto bytes = static_cast<double>(c.bytes.count);
    return latency * us + bytes * moved / (bus * ring_share[protocol]);
  }

  double tree(const Collective& c, const Spread& spread, const Rates& rates,
              std::size_t protocol) const {
    const bool one_node = spread.nodes == 1;
    double bus = spread.per_node == 1 ? rates.network : rates.inside;
    // Two nodes: each is the root of half of the trees. A NIC sends one half, receives the other.
    if (!one_node) bus = std::min(bus, (spread.nodes == 2 ? 2.0 : 1.0) * rates.network);
    bus *= tree_share * (one_node ? tree_inside : tree_between)[protocol];
    const auto size = static_cast<std::uint64_t>(c.bytes.count) / 64;
    const auto log_size =
        std::max<std::size_t>(1, static_cast<std::size_t>(std::bit_width(size))) - 1;
    if (log_size < tree_by_size[protocol].size()) bus *= tree_by_size[protocol][log_size];
    const auto depth =
        static_cast<double>(std::bit_width(static_cast<std::uint64_t>(spread.nodes)) - 1);
    const double latency = base.tree[protocol] + 2.0 * (static_cast<double>(spread.per_node - 1) *
                                                            inside_hop().tree[protocol] +
                                                        depth * network_hop.tree[protocol]);
    return latency * us + static_cast<double>(c.bytes.count) / (0.5 * bus);
  }

  NcclOptions options_;
};

}  // namespace

std::shared_ptr<const CollectiveModel> make_nccl(Options& o) {
  NcclOptions options;
  options.nvlink =
      o.get("hardware", {"nvlink", "pcie"}, "link between the devices of a node") == "nvlink";
  options.inside = o.get("inside", options.inside,
                         "fraction of the line rate that is reached inside a node", 1e-3, 1.0);
  options.network = o.get(
      "network", options.network,
      "fraction of the network that is reached, in addition to network_efficiency", 1e-3, 1.0);
  return std::make_shared<const Nccl>(options);
}

}  // namespace baechi
