#include "sim/transform/graph_copy.h"

namespace baechi {
namespace {

/// A copy of a placed step without collectives. A member becomes a zero-time op, from which its
/// rank's first sends go; NAME/k is the rank's k-th receipt, and readers of the member read the
/// last receipt.
class Unrolling {
 public:
  Unrolling(const OpGraph& graph, const IdVector<OpId, DeviceId>& device)
      : graph_(graph), device_(device), copy_(graph), last_(graph.num_ops(), no_op) {
    copy_.leave_out_collectives();
  }

  PlacedStep run() && {
    for (const Collective& c : graph_.collectives()) check(c);
    IdVector<TensorId, TensorId> tensors(graph_.num_tensors());
    for (const OpId v : graph_.ops()) {
      const CollectiveId c = graph_.collective_of(v);
      OpSpec spec = copy_.spec(v);
      if (c != no_collective) spec.lane = graph_.lanes()[index(compute_lane)];
      const OpId made = copy_.add(v, spec);
      place(made, device_[v]);
      copy_.add_kernels(v, made);
      last_[v] = made;
      // Members have adjacent ids, and all have been added.
      if (c != no_collective && v == last_member(graph_.collectives()[c]))
        add_sends(graph_.collectives()[c]);
    }
    for (const OpId v : graph_.ops())
      for (const TensorId t : graph_.outputs(v))
        if (!graph_.tensor(t).control)
          tensors[t] = copy_.add_tensor(t, last_[v], graph_.tensor(t).size);
    copy_.add_edges(tensors, [&](const Edge& e) { return !leaves_later(e); });
    for (const EdgeId id : graph_.edges()) {
      const Edge& e = graph_.edge(id);
      if (leaves_later(e)) copy_.builder().add_control(last_[e.src], copy_.copy_of(e.dst));
    }
    return std::move(copy_).placed(new_device_);
  }

 private:
  void check(const Collective& c) const {
    if (std::max(c.ranks, c.members) == c.members && c.sharing == 1) return;
    throw InputError(fmt::format(
        "as_sends: the {} of '{}' has {} ranks, {} of them simulated{}; 'simulate: all' of "
        "data_parallel simulates every rank",
        to_text(c.kind), graph_.name(c.first), c.ranks, c.members,
        c.sharing > 1 ? fmt::format(", and shares its network with {} more", c.sharing - 1) : ""));
  }

  static OpId last_member(const Collective& c) {
    return static_cast<OpId>(index(c.first) + c.members - 1);
  }

  /// Whether `e` is a control edge that waits for a rank's last receipt.
  bool leaves_later(const Edge& e) const {
    return graph_.tensor(e.tensor).control && last_[e.src] != copy_.copy_of(e.src);
  }

  void place(OpId made, DeviceId d) {
    BAECHI_CHECK(index(made) == new_device_.size(), "ops are placed as they are added");
    new_device_.push_back(d);
  }
  void add_sends(const Collective& c) {
    // [ranks]: the member, then its receipts
    std::vector<std::vector<OpId>> of_rank;
    for (const OpId v : c.member_ids()) of_rank.push_back({copy_.copy_of(v)});
    for_each_send(c.kind, c.bytes, of_rank.size(), [&](const CollectiveSend& send) {
      std::vector<OpId>& receipts = of_rank[send.to];
      BAECHI_CHECK(send.receipt <= receipts.size(), "a receipt is missing");
      if (send.receipt == receipts.size()) {
        const OpId member = static_cast<OpId>(index(c.first) + send.to);
        receipts.push_back(add_receipt(c, member, send));
        copy_.builder().add_control(receipts[send.receipt - 1], receipts[send.receipt]);
      }
      const OpId from = of_rank[send.from][send.after];
      copy_.builder().add_edge(copy_.builder().add_tensor(from, send.size), receipts[send.receipt]);
    });
    for (std::size_t rank = 0; rank < of_rank.size(); ++rank)
      last_[static_cast<OpId>(index(c.first) + rank)] = of_rank[rank].back();
  }

  /// A reduction reads the received part and the rank's own, and writes one; other receipts have no
  /// work.
  OpId add_receipt(const Collective& c, OpId member, const CollectiveSend& send) {
    const bool works = send.is_summed && graph_.has_work();
    const OpId made =
        copy_.builder().add_op({.name = fmt::format("{}/{}", graph_.name(member), send.receipt),
                                .kind = send.is_summed ? "Add" : "Receive",
                                .phase = graph_.op(c.first).phase});
    place(made, device_[member]);
    constexpr std::int64_t number = 4;  // bytes
    if (works)
      copy_.builder().add_kernel(made,
                                 {.flops = send.size.count / number, .traffic = 3 * send.size});
    for (const std::string& kind : graph_.device_kinds())
      copy_.builder().set_compute(made, kind, works ? std::nullopt : std::optional(Duration{}));
    return made;
  }

  const OpGraph& graph_;
  const IdVector<OpId, DeviceId>& device_;
  GraphCopy copy_;
  IdVector<OpId, OpId> last_;  // [num_ops of graph_]: the op of the copy that ends each op
  IdVector<OpId, DeviceId> new_device_;
};

/// Replaces collectives by point-to-point sends (for_each_send), each a tensor over a link, for
/// engines and machines without collectives. Every rank must be simulated. Reductions are ops of
/// the device's compute lane, so collectives no longer overlap with ops as on a lane of their own.
/// Source: Patarasuk and Yuan, "Bandwidth optimal all-reduce algorithms", JPDC 2009.
class AsSends final : public Transform {
 public:
  bool must_follow(std::string_view other) const override { return other == "data_parallel"; }

  Transformed apply(const OpGraph& graph) const override { return same_ops(graph); }
  PlacedStep after_placing(const OpGraph& graph,
                           const IdVector<OpId, DeviceId>& device) const override {
    if (graph.collectives().empty()) return {graph, device};
    return Unrolling(graph, device).run();
  }
};

}  // namespace

std::unique_ptr<Transform> make_as_sends(Options& /*options*/) {
  return std::make_unique<AsSends>();
}

}  // namespace baechi
