#include "sim/transform/what_if/where.h"

namespace baechi::what_if {

enum class CollectivePer : std::uint8_t { tensor, bucket };
constexpr auto names_of(CollectivePer) { return enumerators<CollectivePer::bucket>(); }

namespace {

/// Adds collectives of the outputs of the selected ops, or replaces collectives by stages.
///   per tensor: one for each tensor; per bucket: one for each `bucket` bytes, on each device in
///     the order of ids. Readers of `to` (every reader, if not given) wait for it.
///   factors [a, b, ...]: each selected all_reduce over a x b x ... ranks becomes a reduce_scatter
///     over a, then one of 1 / a of the bytes over b, ..., an all_reduce over the last factor, and
///     the all_gathers. All but the last are inside a node; of the last, as many use the network
///     concurrently as the product of the other factors. Source: BlueConnect (Cho et al., MLSys
///     2019).
class MakeCollective final : public Verb {
 public:
  explicit MakeCollective(Options& o)
      : kind_(read_enum(o, "kind", CollectiveKind::all_reduce, "kind of collective")),
        per_(read_enum(o, "per", CollectivePer::tensor, "one collective per tensor or bucket")),
        bucket_(o.get("bucket", Bytes{25 << 20}, "bucket size of per: bucket")),
        ranks_(o.get("ranks", std::int64_t{0}, "number of ranks", 0, most)),
        nodes_(o.get("nodes", std::int64_t{1}, "nodes over which they are spread", 1, most)),
        to_(read_to(o)) {
    read_factors(o);
    if (factors_.empty() && ranks_ < 2) o.mistake("ranks", "2 or more");
  }

  bool needs_times() const override { return to_ && to_->needs_times(); }

  Change apply(const Scope& scope, const Selection& selected) const override {
    return factors_.empty() ? added(scope, selected) : replaced(scope, selected);
  }

 private:
  static constexpr std::int64_t most = 1'000'000;

  void read_factors(Options& o) {
    const Options::Value* given = o.raw("factors", "stages instead of one all_reduce: [4, 2]");
    if (given == nullptr) return;
    for (const auto& [key, item] : given->children) {
      const auto factor = parse_number<std::uint32_t>(item.text);
      if (!key.empty() || !factor || *factor < 1 || *factor > most) {
        o.mistake("factors", "not a list of whole numbers >= 1");
        return;
      }
      factors_.push_back(*factor);
    }
    if (factors_.size() < 2) o.mistake("factors", "two or more");
  }

  struct Bucket {
    OpId last{};
    Bytes bytes{};
    std::vector<TensorId> tensors{};
  };

  std::vector<Bucket> buckets(const Scope& scope, const IdVector<TensorId, bool>& wanted) const {
    const OpGraph& graph = scope.graph();
    std::vector<Bucket> all;
    std::map<DeviceId, std::size_t> open;  // into all
    for (const TensorId t : graph.tensors()) {
      if (!wanted[t]) continue;
      const Tensor& tensor = graph.tensor(t);
      const DeviceId d = scope.step.device_of(tensor.producer);
      if (per_ == CollectivePer::tensor || !open.contains(d) || all[open[d]].bytes >= bucket_) {
        open[d] = all.size();
        all.emplace_back();
      }
      Bucket& bucket = all[open[d]];
      bucket.last = tensor.producer;
      bucket.bytes += tensor.size;
      bucket.tensors.push_back(t);
    }
    return all;
  }

  Change added(const Scope& scope, const Selection& selected) const {
    const OpGraph& graph = scope.graph();
    const Selection waiting = to_ ? to_->select(scope) : Selection(graph.num_ops(), true);
    const std::vector<Bucket> all = buckets(scope, tensors_of(scope, selected, to_));
    std::multimap<OpId, const Bucket*> due;
    for (const Bucket& b : all) due.emplace(b.last, &b);
    std::map<const Bucket*, OpId> made;
    Copying copying(graph);
    copying.after = [&](OpId v) {
      for (auto [it, end] = due.equal_range(v); it != end; ++it) {
        const std::string name =
            copying.unique_name(fmt::format("{}/{}", to_text(kind_), graph.name(v)));
        made[it->second] = member(copying, graph, v, name,
                                  {.kind = kind_,
                                   .bytes = it->second->bytes,
                                   .ranks = static_cast<std::uint32_t>(ranks_),
                                   .nodes = static_cast<std::uint32_t>(nodes_)});
      }
    };
    copying.ops();
    copying.edges();
    for (const Bucket& b : all)
      for (const TensorId t : b.tensors) {
        copying.builder().add_edge(copying.tensor(t), made[&b]);
        for (const EdgeId e : graph.readers(t))
          if (waiting[graph.edge(e).dst])
            copying.builder().add_control(made[&b], copying.made(graph.edge(e).dst));
      }
    return std::move(copying).built();
  }

  static OpId member(Copying& copying, const OpGraph& graph, OpId v, const std::string& name,
                     const Collective& collective) {
    const OpId made = copying.insert({.name = name,
                                      .kind = to_text(collective.kind),
                                      .phase = graph.op(v).phase,
                                      .module = graph.module(v)},
                                     v);
    copying.builder().add_collective(collective, std::span(&made, 1));
    return made;
  }

  /// The stages that replace `whole`, in order.
  std::vector<Collective> stages(const Collective& whole) const {
    std::vector<Collective> down, up;
    Collective stage = whole;
    std::uint32_t inside = 1;
    for (std::size_t i = 0; i + 1 < factors_.size(); ++i) {
      stage.ranks = factors_[i];
      stage.nodes = 1;
      stage.kind = CollectiveKind::reduce_scatter;
      down.push_back(stage);
      stage.kind = CollectiveKind::all_gather;
      up.insert(up.begin(), stage);
      stage.bytes = {(stage.bytes.count + factors_[i] - 1) / factors_[i]};
      inside *= factors_[i];
    }
    stage.kind = CollectiveKind::all_reduce;
    stage.ranks = factors_.back();
    stage.nodes = whole.nodes > 1 ? factors_.back() : 1;
    stage.sharing = whole.sharing * inside;
    down.push_back(stage);
    down.insert(down.end(), up.begin(), up.end());
    return down;
  }

  Change replaced(const Scope& scope, const Selection& selected) const {
    const OpGraph& graph = scope.graph();
    for (const OpId v : graph.ops())
      if (selected[v]) check(graph, v);
    std::map<OpId, std::pair<OpId, OpId>> made;  // first and last stage
    std::map<TensorId, TensorId> written;        // of replaced ops
    Copying copying(graph);
    copying.keeps = [&](OpId v) {
      if (selected[v]) made[v] = add_stages(copying, graph, v);
      return !selected[v];
    };
    copying.ops();
    copying.edges();
    for (const TensorId t : graph.tensors())
      if (const Tensor& tensor = graph.tensor(t); selected[tensor.producer] && !tensor.control)
        written[t] = copying.builder().add_tensor(made[tensor.producer].second, tensor.size);
    const auto end_of = [&](OpId v) { return selected[v] ? made[v].second : copying.made(v); };
    for (const EdgeId e : graph.edges()) {
      const Edge& edge = graph.edge(e);
      if (!selected[edge.src] && !selected[edge.dst]) continue;
      const OpId reader = selected[edge.dst] ? made[edge.dst].first : copying.made(edge.dst);
      const Tensor& tensor = graph.tensor(edge.tensor);
      if (tensor.control)
        copying.builder().add_control(end_of(edge.src), reader);
      else if (selected[edge.src])
        copying.builder().add_edge(written.at(edge.tensor), reader);
      else
        copying.builder().add_edge(copying.tensor(edge.tensor), reader);
    }
    return std::move(copying).built();
  }

  void check(const OpGraph& graph, OpId v) const {
    const CollectiveId id = graph.collective_of(v);
    std::uint64_t product = 1;
    for (const std::uint32_t f : factors_) product *= f;
    const bool fits = id != no_collective && graph.collectives()[id].members == 1 &&
                      graph.collectives()[id].kind == CollectiveKind::all_reduce;
    if (!fits)
      throw InputError(
          fmt::format("'{}' is not an all_reduce with one simulated rank", graph.name(v)));
    if (graph.collectives()[id].ranks != product)
      throw InputError(fmt::format("'{}' has {} ranks, but the product of the factors is {}",
                                   graph.name(v), graph.collectives()[id].ranks, product));
  }

  std::pair<OpId, OpId> add_stages(Copying& copying, const OpGraph& graph, OpId v) const {
    OpId first = no_op, last = no_op;
    for (const Collective& stage : stages(graph.collectives()[graph.collective_of(v)])) {
      const std::string name =
          first == no_op
              ? std::string(graph.name(v))
              : copying.unique_name(fmt::format("{}/{}", graph.name(v), to_text(stage.kind)));
      const OpId made = member(copying, graph, v, name, stage);
      if (first == no_op) first = made;
      if (last != no_op) copying.builder().add_control(last, made);
      last = made;
    }
    return {first, last};
  }

  CollectiveKind kind_;
  CollectivePer per_;
  Bytes bucket_;
  std::int64_t ranks_, nodes_;
  std::vector<std::uint32_t> factors_;
  std::optional<Where> to_;
};

}  // namespace

std::unique_ptr<Verb> make_collective(Options& o) { return std::make_unique<MakeCollective>(o); }

}  // namespace baechi::what_if
