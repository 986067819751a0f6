#include "sim/collectives/collective_models.h"

namespace baechi {
namespace {

/// For n ranks and S bytes, with the worst latency L and bandwidth B of the links and
/// d = ceil(log2 n): all_reduce 2 d L + 2 S / B, broadcast half of it; reduce_scatter and
/// all_gather by recursive halving and doubling d L + S (n - 1) / (n B); all_to_all by Bruck's
/// algorithm d (L + S / (2 B)).
class Tree final : public CollectiveModel {
 public:
  Duration time(const Collective& c, std::span<const DeviceId> devices,
                const Cluster& cluster) const override {
    const Spread spread = spread_of(c, devices, cluster);
    const std::int64_t n = spread.ranks;
    if (n < 2) return Duration{};
    const Link link = spread.worst();
    const auto depth = static_cast<std::int64_t>(std::bit_width(static_cast<std::uint64_t>(n - 1)));
    const Duration latency = saturated_product(depth, link.latency);
    const Duration moving = c.bytes / link.bandwidth;
    switch (c.kind) {
      case CollectiveKind::all_reduce:
        return saturated_product(2, saturated_sum(latency, moving));
      case CollectiveKind::broadcast:
        return saturated_sum(latency, moving);
      case CollectiveKind::reduce_scatter:
      case CollectiveKind::all_gather:
        return saturated_sum(latency, Bytes{c.bytes.count - c.bytes.count / n} / link.bandwidth);
      case CollectiveKind::all_to_all:
        return saturated_sum(
            latency,
            saturated_product(depth, Bytes{c.bytes.count - c.bytes.count / 2} / link.bandwidth));
      case CollectiveKind::send_recv:
        break;
    }
    return saturated_sum(link.latency, moving);
  }
};

}  // namespace

std::shared_ptr<const CollectiveModel> make_tree(Options&) {
  return std::make_shared<const Tree>();
}

MakeCollectiveModel make_ring, make_tree, make_hierarchical, make_nccl, make_line, make_table,
    make_steps;

std::span<const CollectiveModelEntry> collective_models() {
  static constexpr CollectiveModelEntry table[] = {
      {"ring", "one ring through all ranks, as fast as its worst link",
       "Patarasuk, Yuan, JPDC 2009", make_ring},
      {"tree", "a binary tree: few steps, for small buffers", "Thakur et al., IJHPCA 2005",
       make_tree},
      {"hierarchical", "inside the nodes, between them over all NICs, inside again",
       "Cho et al., BlueConnect, MLSys 2019", make_hierarchical},
      {"nccl", "the fastest of ring and tree with NCCL's three protocols",
       "NCCL, src/graph/tuning.cc", make_nccl},
      {"line", "latency and bandwidth as fitted to measured all_reduces, by number of ranks",
       "Hockney, Parallel Computing 1994", make_line},
      {"table", "measured all_reduces, interpolated", "a CSV with ranks,bytes,us", make_table},
      {"steps", "each send of the ring simulated over the links: the slow reference model",
       "sim/engine/simulation.h", make_steps},
  };
  return table;
}

std::shared_ptr<const CollectiveModel> make_collectives(std::string_view name, Options options,
                                                        const std::string& where) {
  return make_entry(collective_models(), "collective model", name, std::move(options), where);
}

std::shared_ptr<const CollectiveModel> make_collectives(const Options::Value& value) {
  if (value.children.empty()) return make_collectives(value.text, Options(value.text), value.where);
  std::string name;
  std::map<std::string, Options::Value> options;
  for (const auto& [key, child] : value.children) {
    if (key == "model")
      name = child.text;
    else
      options.emplace(key, child);
  }
  if (name.empty())
    throw InputError(at(value.where) +
                     "collectives: not NAME or {model: NAME, option: value, ...}");
  return make_collectives(name, Options(name, std::move(options)), value.where);
}

std::shared_ptr<const CollectiveModel> make_ring(Options&) { return ring_collectives(); }

}  // namespace baechi
