#include <tuple>

#include "sim/graph/analysis.h"
#include "sim/transform/graph_copy.h"

namespace baechi {
namespace {

/// A copy of a placed step with an op NAME/sent for each tensor that leaves its device; for the
/// op's k-th further output, k > 0, NAME/sent.k.
class PassSends {
 public:
  PassSends(const OpGraph& graph, const IdVector<OpId, DeviceId>& device, bool asked)
      : graph_(graph),
        device_(device),
        lane_(asked ? asked_lane : graph.lanes()[index(compute_lane)]),
        copy_(graph),
        receipts_(graph.num_ops()) {
    for (const EdgeId e : graph.edges()) {
      const Edge& edge = graph.edge(e);
      const std::uint32_t more = device[edge.src] != device[edge.dst] ? 1 : 0;
      receipts_[edge.dst] = std::max(receipts_[edge.dst], receipts_[edge.src] + more);
    }
    for (const OpId v : graph.ops()) {
      if (!in_pass(v)) continue;
      PassOf& pass = passes_[key_of(v)];
      pass.last = v;
      const auto later = [&](const auto& of, auto& ends) {
        OpId& end = ends.try_emplace(of, v).first->second;
        if (key_of(v) >= key_of(end)) end = v;
      };
      later(std::pair(device_[v], graph.micro_batch(v).number), end_of_);
      if (const OpId f = forward_of(v); f != no_op) later(key_of(f), backward_end_of_);
      const auto edges = graph.out_edges(v);
      if (std::ranges::none_of(edges, [&](EdgeId e) {
            return in_pass(graph.edge(e).dst) && key_of(graph.edge(e).dst) == key_of(v);
          }))
        pass.ends.push_back(v);
    }
  }

  PlacedStep run() && {
    IdVector<TensorId, TensorId> kept(graph_.num_tensors()), sent(graph_.num_tensors());
    for (const OpId v : graph_.ops()) {
      add(v, kept);
      if (in_pass(v) && passes_.at(key_of(v)).last == v) send(passes_.at(key_of(v)), kept, sent);
    }
    copy_.add_edges(kept, [&](const Edge& e) { return !leaves(e); });
    for (const EdgeId e : graph_.edges())
      if (const Edge& edge = graph_.edge(e); leaves(edge)) {
        copy_.builder().add_edge(sent[edge.tensor], copy_.copy_of(edge.dst));
        keep(kept[edge.tensor], edge.src, edge.src);
        if (in_pass(edge.dst)) keep(sent[edge.tensor], edge.src, edge.dst);
      }
    return std::move(copy_).placed(on_);
  }

 private:
  /// A pass: what a device runs between two receipts, in one phase of one micro-batch.
  using Key = std::tuple<DeviceId, std::uint32_t, Phase, std::uint32_t>;
  struct PassOf {
    OpId last{};               // the largest id
    std::vector<OpId> ends{};  // ops without readers in the pass
    std::vector<TensorId> leaving{};
  };

  Key key_of(OpId v) const {
    return {device_[v], receipts_[v], graph_.op(v).phase, graph_.micro_batch(v).number};
  }
  bool in_pass(OpId v) const {
    return graph_.op(v).phase != Phase::update && graph_.collective_of(v) == no_collective &&
           graph_.lane(v) == compute_lane;
  }
  /// Whether `e` goes from an op of a pass to another device, with data.
  bool leaves(const Edge& e) const {
    return device_[e.src] != device_[e.dst] && in_pass(e.src) && !graph_.tensor(e.tensor).control;
  }

  void add(OpId v, IdVector<TensorId, TensorId>& kept) {
    copy_.add_whole(v, kept);
    on_.push_back(device_[v]);
    for (const TensorId t : graph_.outputs(v))
      if (std::ranges::any_of(graph_.readers(t), [&](EdgeId e) { return leaves(graph_.edge(e)); }))
        passes_.at(key_of(v)).leaving.push_back(t);
  }

  /// The op that `v` differentiates, if both run on one device.
  OpId forward_of(OpId v) const {
    const OpId f = graph_.op(v).forward;
    return f != no_op && in_pass(f) && device_[f] == device_[v] ? f : no_op;
  }
  /// The op until whose end the caller of the pass of `at` holds the pass's inputs and outputs: the
  /// last op of the backward pass, or of the device's micro-batch if no backward pass is known.
  OpId end_for(OpId at) const {
    const OpId f = graph_.op(at).phase == Phase::forward ? at : forward_of(at);
    if (const auto end = backward_end_of_.find(key_of(f != no_op ? f : at));
        end != backward_end_of_.end())
      return passes_.at(key_of(end->second)).last;
    return end_of_.at({device_[at], graph_.micro_batch(at).number});
  }
  /// Keeps the tensor of `from` on the device of `at` until end_for(at).
  void keep(TensorId tensor, OpId from, OpId at) {
    const OpId end = end_for(at);
    if (end != from && key_of(end) >= key_of(at))
      copy_.builder().add_edge(tensor, copy_.copy_of(end));
  }

  void send(const PassOf& pass, const IdVector<TensorId, TensorId>& kept,
            IdVector<TensorId, TensorId>& sent) {
    for (const TensorId t : pass.leaving) {
      const OpId from = graph_.tensor(t).producer;
      const std::size_t k = index(t) - index(*graph_.outputs(from).begin());
      const OpId made = copy_.builder().add_op(
          {.name = fmt::format("{}/sent{}", graph_.name(from), k == 0 ? "" : fmt::format(".{}", k)),
           .kind = "Send",
           .phase = graph_.op(from).phase,
           .lane = lane_,
           .module = graph_.module(from)});
      on_.push_back(device_[from]);
      for (const std::string& kind : graph_.device_kinds())
        copy_.builder().set_compute(made, kind, Duration{});
      copy_.builder().add_edge(kept[t], made);
      for (const OpId end : pass.ends)
        if (end != from) copy_.builder().add_control(copy_.copy_of(end), made);
      sent[t] = copy_.add_tensor(t, made, graph_.tensor(t).size, true);
    }
  }

  const OpGraph& graph_;
  const IdVector<OpId, DeviceId>& device_;
  const std::string_view lane_;  // of sends
  GraphCopy copy_;
  IdVector<OpId, std::uint32_t> receipts_;  // [num_ops] the most transfers on a path to the op
  std::map<Key, PassOf> passes_;
  std::map<std::pair<DeviceId, std::uint32_t>, OpId> end_of_;  // by device and micro-batch
  std::map<Key, OpId> backward_end_of_;                        // by forward pass
  IdVector<OpId, DeviceId> on_;                                // [ops of the builder]
};

/// Tensors for other devices are sent when the device's whole pass has ended: all ops
/// that it runs forward, or backward, after one receipt. PyTorch does so, because the tensors are
/// results of a call: of a stage's forward(), or of its backward(), which first computes all
/// gradients. Both ends keep the tensor until the corresponding backward pass has ended, because
/// the caller holds the arguments and results of forward() and backward(); if no op differentiates
/// the pass, until the end of their last pass of the micro-batch. Control edges do not wait. With
/// `asked`, a pipeline's stage also waits until the receiver has ended its previous pass: gloo
/// sends no tensor before its peer has memory for it.
class SendAfterPass final : public Transform {
 public:
  explicit SendAfterPass(Options& o)
      : asked_(
            o.get("asked", false,
                  "in a pipeline, a tensor is sent only when its receiver has ended its previous "
                  "pass")) {}
  Transformed apply(const OpGraph& graph) const override { return same_ops(graph); }
  PlacedStep after_placing(const OpGraph& graph,
                           const IdVector<OpId, DeviceId>& device) const override {
    return PassSends(graph, device, asked_).run();
  }
  std::string no_pipeline(PipelineTraits pipeline) const override {
    if (pipeline.splits)
      return "send_after_pass: this schedule sends before the weight gradients are computed";
    return "";
  }

 private:
  bool asked_;
};

}  // namespace

std::unique_ptr<Transform> make_send_after_pass(Options& o) {
  return std::make_unique<SendAfterPass>(o);
}

}  // namespace baechi
