#include <cmath>

#include "sim/collectives/collective_models.h"

namespace baechi {
namespace {

struct LineValues {
  Duration latency{};
  Bandwidth bandwidth{};  ///< bus bandwidth: for the bytes 2 S (n - 1) / n that each rank sends
};

struct LineOptions {
  Duration latency{}, per_step{};
  Bandwidth bandwidth{};
  double loss = 0.0;
  Bandwidth wire{};
  double part = 0.5;  ///< time of other kinds as a fraction of all_reduce's
  std::map<std::int64_t, LineValues> ranks{};  ///< measured values by number of ranks
};

/// all_reduce of n ranks and S bytes: alpha(n) + 2 S (n - 1) / (n B(n)). A part of it for
/// reduce_scatter, all_gather, all_to_all; alpha(n) / 2 + S / B(n) for broadcast and send_recv.
class LineModel final : public CollectiveModel {
 public:
  explicit LineModel(LineOptions options) : options_(std::move(options)) {}

  Duration time(const Collective& c, std::span<const DeviceId> devices,
                const Cluster& cluster) const override {
    const Spread spread = spread_of(c, devices, cluster);
    if (spread.ranks < 2) return Duration{};
    const LineValues values = values_of(spread, devices, cluster);
    const auto n = static_cast<double>(spread.ranks);
    double parts = options_.part, moved = 2.0 * options_.part * (n - 1.0) / n;
    if (c.kind == CollectiveKind::all_reduce) parts = 1.0, moved = 2.0 * (n - 1.0) / n;
    if (c.kind == CollectiveKind::broadcast || c.kind == CollectiveKind::send_recv)
      parts = 0.5, moved = 1.0;
    return Duration{saturated(std::ceil(parts * static_cast<double>(values.latency.count()) +
                                        static_cast<double>(c.bytes.count) * moved * 1e9 /
                                            values.bandwidth.bytes_per_second))};
  }

 private:
  LineValues values_of(const Spread& spread, std::span<const DeviceId> devices,
                       const Cluster& cluster) const {
    if (const auto it = options_.ranks.find(spread.ranks); it != options_.ranks.end())
      return it->second;
    const auto n = static_cast<double>(spread.ranks);
    LineValues values{
        .latency = saturated_sum(options_.latency,
                                 saturated_product(2 * (spread.ranks - 1), options_.per_step)),
        .bandwidth = {options_.bandwidth.bytes_per_second / (1.0 + options_.loss / n)}};
    if (options_.wire.bytes_per_second > 0.0) values.bandwidth = wired(spread, devices, cluster);
    if (values.bandwidth.bytes_per_second > 0.0) return values;
    throw InputError(fmt::format("collectives: line has no values for {} ranks", spread.ranks));
  }

  Bandwidth wired(const Spread& spread, std::span<const DeviceId> devices,
                  const Cluster& cluster) const {
    if (cluster.num_nodes() == 0 || cluster.node(cluster.node_of(devices.front())).wires.empty())
      throw InputError("collectives: line with 'wire' needs a cluster of nodes with wires");
    if (spread.nodes > 1)
      throw InputError(
          "collectives: line with 'wire' is of one node; {model: hierarchical, inside: {model: "
          "line, ...}} spans several");
    return rings_of(devices, spread.ranks, cluster).bus(spread.ranks, options_.wire);
  }

  LineOptions options_;
};

/// {RANKS: {latency, bandwidth}, ...}
std::map<std::int64_t, LineValues> read_ranks(const Options::Value& value) {
  std::map<std::int64_t, LineValues> ranks;
  for (const auto& [key, child] : value.children) {
    const auto n = parse_number<std::int64_t>(key);
    if (!n || *n < 2)
      throw InputError(fmt::format("{}line: ranks: '{}' is not a whole number of at least 2",
                                   at(child.where), key));
    Options o("line: ranks", {child.children.begin(), child.children.end()});
    LineValues& values = ranks[*n];
    values.latency = o.get("latency", Duration{}, "");
    values.bandwidth = o.get("bandwidth", Bandwidth{}, "");
    if (values.latency > std::chrono::hours(24)) o.mistake("latency", "at most 86400 s");
    if (!(values.bandwidth.bytes_per_second > 0.0)) o.mistake("bandwidth", "not above 0");
    o.finish();
  }
  return ranks;
}

}  // namespace

std::shared_ptr<const CollectiveModel> make_line(Options& o) {
  LineOptions options;
  options.latency = o.get("latency", Duration{}, "of an all_reduce");
  options.per_step = o.get("step_latency", Duration{}, "for each of its 2 (n - 1) steps besides");
  using namespace std::chrono_literals;
  if (options.latency > 24h) o.mistake("latency", "at most 86400 s");
  if (options.per_step > 60s) o.mistake("step_latency", "at most 60 s");
  options.bandwidth = o.get("bandwidth", Bandwidth{}, "of very many ranks");
  options.loss = o.get("loss", 0.0, "the bandwidth of n ranks is bandwidth / (1 + loss / n)", -1.0);
  options.wire = o.get("wire", Bandwidth{},
                       "instead: bandwidth of a ring, times the rings of the node's wires");
  options.part = o.get(
      "part", options.part,
      "of an all_reduce's time that a reduce_scatter, an all_gather or an all_to_all takes", 0.0);
  if (const Options::Value* ranks =
          o.raw("ranks", "{N: {latency, bandwidth}}: measured values of N ranks"))
    options.ranks = read_ranks(*ranks);
  return std::make_shared<const LineModel>(std::move(options));
}

}  // namespace baechi
