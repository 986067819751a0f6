#include "sim/transform/training/data_parallel.h"

#include "sim/graph/analysis.h"
#include "sim/transform/graph_copy.h"
#include "sim/transform/training/gradients.h"

namespace baechi {
namespace {

/// Copies of a graph in one builder, op by op: all copies of an op have adjacent ids, so that each
/// copy keeps the order of its ops.
class ReplicaBuilder {
 public:
  ReplicaBuilder(const OpGraph& graph, std::uint32_t count) : graph_(graph), count_(count) {
    for (const OpId v : graph.ops())
      for (std::uint32_t r = 0; r < count; ++r) add_op(v, r);
    for (const OpId v : graph.ops())
      for (std::uint32_t r = 0; r < count; ++r) add_edges(v, r);
  }

  OpId copy(OpId v, std::uint32_t r) const {
    return OpId{static_cast<std::uint32_t>(index(v)) * count_ + r};
  }

  /// The members `joined` of a collective are one collective with their copies.
  void add_collectives(const std::vector<OpId>& joined) {
    const std::set<OpId> together(joined.begin(), joined.end());
    for (const Collective& c : graph_.collectives()) {
      std::vector<OpId> members;
      for (std::uint32_t r = 0; r < count_; ++r) {
        for (const OpId v : c.member_ids()) members.push_back(copy(v, r));
        if (together.contains(c.first)) continue;
        builder_.add_collective(c, members);
        members.clear();
      }
      if (!members.empty()) builder_.add_collective(c, members);
    }
  }

  OpGraph built(IdVector<OpId, OpId>& renumbered) && {
    OpGraph graph = std::move(builder_).build(&renumbered);
    return graph_.free_controls() ? graph.with_free_controls() : std::move(graph);
  }

 private:
  void add_op(OpId v, std::uint32_t r) {
    const Op& op = graph_.op(v);
    const auto& kinds = graph_.device_kinds();
    const std::string name =
        r == 0 ? std::string(graph_.name(v)) : fmt::format("{}{}{}", graph_.name(v), mark_, r);
    OpSpec spec = spec_of(graph_, v);
    spec.name = name;
    const OpId made = builder_.add_op(spec);
    BAECHI_CHECK(made == copy(v, r), "'{}' is not where its copies are", name);
    for (std::size_t k = 0; k < kinds.size(); ++k)
      builder_.set_compute(made, kinds[k], graph_.compute(v, k));
    for (const OpWork& kernel : graph_.kernels(v)) builder_.add_kernel(made, kernel);
    if (op.forward != no_op) builder_.set_forward(made, copy(op.forward, r));
    if (const auto [first, number] = graph_.micro_batch(v); first != v)
      builder_.set_micro_batch(made, {copy(first, r), number});
    for (const TensorId t : graph_.outputs(v)) {
      const Tensor& tensor = graph_.tensor(t);
      tensors_.push_back({});  // of a control tensor: none
      if (tensor.control) continue;
      tensors_.back() = builder_.add_tensor(made, tensor.size, tensor);
      if (const auto time = graph_.measured_transfer(t))
        builder_.set_transfer(tensors_.back(), *time);
    }
  }

  void add_edges(OpId v, std::uint32_t r) {
    const auto outputs = graph_.outputs(v);
    const std::size_t first = index(*outputs.begin()) * count_ + r * outputs.size();
    std::vector<EdgeId> edges(graph_.out_edges(v).begin(), graph_.out_edges(v).end());
    std::ranges::sort(edges, {}, [this](EdgeId e) { return graph_.added(e); });
    for (const EdgeId e : edges) {
      const Edge& edge = graph_.edge(e);
      if (graph_.tensor(edge.tensor).control)
        builder_.add_control(copy(v, r), copy(edge.dst, r));
      else
        builder_.add_edge(tensors_[first + index(edge.tensor) - index(*outputs.begin())],
                          copy(edge.dst, r));
    }
  }

  const OpGraph& graph_;
  const std::uint32_t count_;
  const std::string mark_ = copy_mark(graph_);
  OpGraphBuilder builder_;
  std::vector<TensorId> tensors_;  // by op, copy and output
};

/// Data-parallel training: replicas of the placed step, which reduce their gradients. One replica
/// is simulated, which represents all; or all are. Sources: DDP: Li et al., VLDB 2020; ZeRO:
/// Rajbhandari et al., SC 2020; parameter servers: Li et al., OSDI 2014; compression: Lin et al.,
/// ICLR 2018.
class DataParallel final : public Transform {
 public:
  explicit DataParallel(Options& o) {
    constexpr std::int64_t most = 1'000'000;
    DataParallelOptions& p = options_;
    p.replicas = o.get("replicas", std::int64_t{8}, "number of replicas", 1, most);
    p.nodes = o.get("nodes", p.nodes, "nodes over which they are spread evenly", 1, most);
    p.mode = read_enum(o, "mode", p.mode, "how replicas synchronise");
    p.send = read_enum(o, "send", p.send, "when gradients are sent");
    if (p.mode == Synchronisation::after && p.send == Sending::beside)
      o.mistake("send",
                "mode after sends gradients after the backward pass; mode ddp overlaps the two");
    p.bucket = o.get("bucket", p.bucket, "gradients are sent in buckets of at least this size");
    p.first_bucket = o.get("first_bucket", p.first_bucket, "the same of the first bucket");
    p.simulate_all =
        o.get("simulate", {"one", "all"},
              "one replica, which represents all; or all, each on devices of its own in the "
              "cluster") == "all";
    p.compress = o.get("compress", p.compress,
                       "compression: fraction of the bytes that is sent, after an op that reads "
                       "and writes the gradients twice",
                       1e-6, 1.0);
    p.fill = o.get(
        "fill", p.fill,
        "rate at which an op copies gradients into their bucket before it is sent; 0: no copy");
    p.empty = o.get("empty", p.empty, "rate at which an op copies them back; 0: no copy");
    const bool copies = p.fill > Bandwidth{} || p.empty > Bandwidth{};
    if (copies && p.sends_each_pass())
      o.mistake("mode",
                "zero2 and zero3 keep shares of gradients, which 'fill' and 'empty' do not copy");
    if (copies && p.compress < 1.0)
      o.mistake("compress", "compression already copies the gradients: drop 'fill' and 'empty'");
    p.before_sum = o.get("before_sum", p.before_sum,
                         "bytes that an op moves in device memory per byte of gradients before "
                         "they are sent: FSDP's flat parameters concatenate, cast and divide them",
                         0.0, 100.0);
    p.after_gather =
        o.get("after_gather", p.after_gather,
              "with mode zero3: the same per byte of weights after they are gathered", 0.0, 100.0);
    if (p.after_gather > 0.0 && p.mode != Synchronisation::zero3)
      o.mistake("after_gather", "only zero3 gathers weights where they are read");
    p.broadcasts = o.get("broadcasts", p.broadcasts,
                         "with modes zero1 and zero2: new weights are sent by one broadcast per "
                         "replica, one after the other, instead of one all-gather");
    if (p.broadcasts && p.mode != Synchronisation::zero1 && p.mode != Synchronisation::zero2)
      o.mistake("broadcasts", "only zero1 and zero2 distribute new weights");
    p.gradients =
        o.get("gradients", p.gradients,
              "for graphs without gradients: their bytes relative to the weights", 0.0, 1e3);
    p.stateless = o.get("stateless", p.stateless,
                        "the optimizer has no state: in a graph that does not distinguish weights "
                        "from state, all bytes are weights");
    p.servers = o.get(
        "servers", p.servers,
        "parameter servers of mode ps, each with a link like a replica's; 0: as many as replicas",
        0, most);
    p.sharing = o.get("sharing", p.sharing,
                      "number of identical collectives, of devices that are not simulated, that "
                      "use the network of the same nodes concurrently",
                      1, most);
    p.per_gradient = o.get(
        "per_gradient", p.per_gradient,
        "framework time per op whose gradients go into a bucket, in which the device idles, also "
        "with one replica: 15 us for PyTorch's DDP if its thread is the bottleneck, else 0");
    p.group = o.get("group", p.group,
                    "hybrid sharding: size of the groups within which zero1, zero2 or zero3 shard; "
                    "groups all-reduce their gradients; 0: all replicas",
                    0, most);
    p.expert =
        o.get("expert", p.expert,
              "expert parallelism: replicas over which experts, ops named */expert_*, are divided",
              1, most);
    if (p.group > 0 && (p.mode < Synchronisation::zero1 || p.replicas % p.group != 0))
      o.mistake("group", fmt::format("{} replicas in mode {} are not divided into groups of {}",
                                     p.replicas, to_text(p.mode), p.group));
    if (p.replicas % p.expert != 0 || (p.group > 0 && p.expert > 1))
      o.mistake("expert", fmt::format("{} replicas{} are not divided by {}", p.replicas,
                                      p.group > 0 ? " in groups" : "", p.expert));
    if (p.expert > 1 && p.simulate_all) o.mistake("expert", "replicas then differ: simulate one");
    if (p.replicas % p.nodes != 0)
      o.mistake("nodes", fmt::format("{} replicas are not the same number on each of {} machines",
                                     p.replicas, p.nodes));
  }

  Transformed apply(const OpGraph& graph) const override {
    if (options_.replicas == 1 || graph.num_ops() == 0) return same_ops(graph);
    return same_ops(with_shares(graph, options_));
  }

  PlacedStep after_placing(const OpGraph& graph,
                           const IdVector<OpId, DeviceId>& device) const override {
    if (options_.alone() || graph.num_ops() == 0) return {graph, device};
    std::vector<OpId> joined;
    PlacedStep one = synchronised(graph, device, options_, joined);
    return options_.simulate_all ? replicated(one, options_.replicas, joined) : std::move(one);
  }

  std::string no_pipeline(PipelineTraits pipeline) const override {
    if (options_.replicas > 1 && pipeline.bidirectional)
      return "data_parallel: this schedule reduces a chunk's gradients between its two devices, "
             "and not between replicas";
    if (options_.replicas > 1 && options_.fill > Bandwidth{})
      return "data_parallel: 'fill' copies gradients in the update pass, after the buckets of a "
             "pipeline were sent";
    return "";
  }

  /// Otherwise updates with a shard of the optimizer state would get whole master weights.
  bool must_follow(std::string_view other) const override {
    return other == "precision" && options_.shares_optimizer() > options_.shares_weights();
  }

  std::int64_t devices() const override { return options_.simulate_all ? options_.replicas : 1; }

 private:
  DataParallelOptions options_;
};

void check(const OpGraph& graph, const DataParallelOptions& options) {
  const bool given = options.gradients > 0.0;
  const auto gradients = given ? assumed_gradients(graph, options.gradients) : gradients_of(graph);
  if (gradients.empty())
    throw InputError(
        fmt::format("data_parallel: {}",
                    given ? "no backward op says which forward op with weights it differentiates"
                          : "no backward op passes gradients to an update op; 'gradients: 0.33' "
                            "assumes this fraction of the weights' bytes"));
  if (options.shares_optimizer() == 1) return;
  if (persistent_of_one_kind(graph) && !options.stateless)
    throw InputError(fmt::format(
        "data_parallel: mode {} shards optimizer state, gradients or weights, and this graph does "
        "not distinguish them: all are at its forward ops; 'stateless' takes all as weights",
        to_text(options.mode)));
}

}  // namespace

PlacedStep replicated(const PlacedStep& one, std::int64_t count, const std::vector<OpId>& joined) {
  std::uint32_t stride = 0;
  for (const DeviceId d : one.device)
    stride = std::max(stride, static_cast<std::uint32_t>(index(d)) + 1);
  const auto copies = static_cast<std::uint32_t>(count);
  ReplicaBuilder replicas(one.graph, copies);
  replicas.add_collectives(joined);
  IdVector<OpId, OpId> renumbered;
  PlacedStep all;
  all.graph = std::move(replicas).built(renumbered);
  all.device.assign(renumbered.size(), DeviceId{});
  for (const OpId made : renumbered.ids()) {
    const OpId v{static_cast<std::uint32_t>(index(made)) / copies};
    const std::uint32_t r = static_cast<std::uint32_t>(index(made)) % copies;
    all.device[renumbered[made]] =
        DeviceId{static_cast<std::uint32_t>(index(one.device[v])) + r * stride};
  }
  return all;
}

bool is_expert(const OpGraph& graph, OpId v) {
  return graph.name(v).find("/expert_") != std::string_view::npos;
}

std::unique_ptr<Transform> make_data_parallel(Options& o) {
  return std::make_unique<DataParallel>(o);
}

OpGraph with_shares(const OpGraph& graph, const DataParallelOptions& options) {
  check(graph, options);
  if (options.shares_optimizer() == 1) return graph;
  GraphCopy copy(graph);
  IdVector<TensorId, TensorId> tensors(graph.num_tensors());
  for (const OpId v : graph.ops()) {
    const Phase phase = graph.op(v).phase;
    const std::int64_t of = options.shares(phase, is_expert(graph, v));
    const std::int64_t work_of = phase == Phase::update ? of : 1;
    OpSpec spec = copy.spec(v);
    spec.persistent = {ceil_div(spec.persistent.count, of)};
    const OpId made = copy.add(v, spec, [&](Duration time, std::size_t) {
      return Duration{ceil_div(time.count(), work_of)};
    });
    copy.add_kernels(v, made, [&](OpWork work) {
      work.flops = ceil_div(work.flops, work_of);
      work.traffic = {ceil_div(work.traffic.count, work_of)};
      work.weights = {ceil_div(work.weights.count, work_of)};
      return work;
    });
    for (const TensorId t : graph.outputs(v))
      if (!graph.tensor(t).control) tensors[t] = copy.add_tensor(t, made, graph.tensor(t).size);
  }
  copy.add_edges(tensors);
  return std::move(copy).built().graph;
}

}  // namespace baechi
