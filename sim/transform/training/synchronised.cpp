#include <cmath>

#include "sim/graph/analysis.h"
#include "sim/transform/graph_copy.h"
#include "sim/transform/training/data_parallel.h"
#include "sim/transform/training/gradients.h"

namespace baechi {
namespace {

/// Adds the collectives to a copy of a replica's placed step. Ids of new ops are the builder's.
class Synchronising {
 public:
  Synchronising(const OpGraph& graph, const IdVector<OpId, DeviceId>& device,
                const DataParallelOptions& options)
      : graph_(graph), device_(device), options_(options), copy_(graph) {
    std::vector<Gradient> gradients =
        options.gradients > 0.0
            ? assumed_gradients(graph,
                                options.gradients * static_cast<double>(options.shares_weights()))
            : gradients_of(graph, options.sends_each_pass());
    for (Gradient& g : gradients) {
      g.expert = options.expert > 1 && is_expert(graph, g.producer);
      if (options.gradients == 0.0 && !g.tensor)
        g.bytes = {g.bytes.count * options.shares_gradients(g.expert)};
    }
    const Bytes unlimited{std::numeric_limits<std::int64_t>::max()};
    buckets_ =
        buckets_of(gradients, device, options.sends_after() ? unlimited : options.first_bucket,
                   options.sends_after() ? unlimited : options.bucket);
    done_.resize(buckets_.size(), no_op);
    filled_.resize(buckets_.size(), no_op);
    updates_early_ = std::ranges::any_of(graph.edges(), [&](EdgeId e) {
      const OpId src = graph.edge(e).src, dst = graph.edge(e).dst;
      return graph.op(src).phase == Phase::update && graph.op(dst).phase != Phase::update &&
             !on_host(graph, src);
    });
    if (options.mode == Synchronisation::zero3)
      gathers_ = weight_gathers(graph, device, options.sharers(), options.bucket,
                                options.expert > 1 ? options.sharers(true) : 0);
    for (std::size_t k = 0; k < buckets_.size(); ++k) {
      due_[buckets_[k].last_producer()].push_back(k);
      for (const Gradient& g : buckets_[k].gradients) {
        if (g.tensor) bucket_of_[*g.tensor] = k;
        for (const AddedGradient& a : g.added)
          if (a.tensor) bucket_of_[*a.tensor] = k;
      }
    }
  }

  PlacedStep run(std::vector<OpId>& joined) && {
    IdVector<TensorId, TensorId> tensors(graph_.num_tensors());
    std::vector<std::size_t> due;
    for (const OpId v : graph_.ops()) {
      // Tensor-parallel all-reduces go first: the next op waits for them.
      if (graph_.collective_of(v) == no_collective) add_due(due, tensors);
      add_gathers_before(v);
      OpSpec spec = copy_.spec(v);
      for (const TensorId t : graph_.outputs(v))
        if (is_sent_whole(t)) spec.temporary -= graph_.tensor(t).size;
      const OpId made = copy_.add(v, spec);
      place(made, device_[v]);
      copy_.add_kernels(v, made);
      for (const TensorId t : graph_.outputs(v)) {
        const Bytes size = graph_.tensor(t).size;
        if (!graph_.tensor(t).control)
          tensors[t] = is_sent_whole(t) ? copy_.builder().add_tensor(made, size)
                                        : copy_.add_tensor(t, made, size);
      }
      if (const auto it = due_.find(v); it != due_.end())
        std::ranges::copy(it->second, std::back_inserter(due));
    }
    add_due(due, tensors);
    if (options_.empty > Bandwidth{}) empty_buckets();
    copy_.add_edges(tensors, [&](const Edge& e) { return !goes_by_collective(e); });
    if (options_.sends_after() && !options_.sends_each_pass() && !updates_early_)
      wait_for_backward();
    for (std::size_t k = 0; k < buckets_.size(); ++k) hand_out(k);
    if (options_.mode == Synchronisation::zero1 || options_.mode == Synchronisation::zero2)
      gather_new_weights();
    read_gathered();
    IdVector<OpId, OpId> renumbered;
    OpGraph graph = std::move(copy_).built(&renumbered).graph;
    for (const OpId made : joined_) joined.push_back(renumbered[made]);
    return placed_step(std::move(graph), renumbered, new_device_);
  }

 private:
  void place(OpId made, DeviceId d) {
    BAECHI_CHECK(index(made) == new_device_.size(), "ops are placed as they are added");
    new_device_.push_back(d);
  }

  /// An op that takes `spec.compute` on every device type.
  OpId add_op(const OpSpec& spec, DeviceId d) {
    const OpId made = copy_.builder().add_op(spec);
    for (const std::string& device_kind : graph_.device_kinds())
      copy_.builder().set_compute(made, device_kind, spec.compute);
    place(made, d);
    return made;
  }

  /// A communicator: `ranks` replicas with stride `apart`.
  struct Among {
    std::int64_t ranks = 1, apart = 1;
  };
  Among all(bool expert) const {
    return {options_.alike(expert), options_.replicas / options_.alike(expert)};
  }
  Among sharers(bool expert) const {
    return {options_.sharers(expert), options_.replicas / options_.alike(expert)};
  }
  /// One replica of each group.
  Among groups() const { return {options_.replicas / options_.sharers(), options_.sharers()}; }

  /// A collective of this device and its counterparts in other replicas.
  OpId add_collective(CollectiveKind kind, Bytes bytes, const std::string& of, DeviceId d,
                      Phase phase, Among among, std::string_view lane = "comm") {
    const std::string name = fmt::format("{}/{}", to_text(kind), of);
    const OpId made =
        add_op({.name = name, .kind = to_text(kind), .phase = phase, .lane = lane}, d);
    const bool pair = kind == CollectiveKind::send_recv;
    // Replicas are spread evenly over nodes, in order.
    const std::int64_t span = among.ranks * among.apart;
    const std::int64_t nodes = std::clamp<std::int64_t>(
        (options_.nodes * span + options_.replicas - 1) / options_.replicas, 1, among.ranks);
    copy_.builder().add_collective(
        {.kind = kind,
         .bytes = bytes,
         .ranks = pair ? 2U : static_cast<std::uint32_t>(among.ranks),
         .nodes = options_.simulate_all ? 0U
                  : pair                ? static_cast<std::uint32_t>(options_.nodes)
                                        : static_cast<std::uint32_t>(nodes),
         .sharing = static_cast<std::uint32_t>(options_.sharing * among.apart)},
        std::span(&made, 1));
    if (!pair) joined_.push_back(made);
    return made;
  }

  /// An op of lane "compute" that copies a bucket's gradients in or out, and holds `bytes`.
  OpId add_copy(const std::string& name, Duration time, DeviceId d, Bytes bytes) {
    return add_op({.name = name,
                   .kind = "Copy",
                   .compute = time,
                   .persistent = bytes,
                   .phase = Phase::update},
                  d);
  }

  /// An op of lane "compute" that moves `bytes` in the memory of `d`; zero time in graphs without
  /// work.
  OpId add_moves(const std::string& name, std::string_view kind, Bytes bytes, DeviceId d,
                 Phase phase) {
    const OpId made = copy_.builder().add_op({.name = name, .kind = kind, .phase = phase});
    place(made, d);
    copy_.builder().add_kernel(made, {.traffic = bytes});
    for (const std::string& device_kind : graph_.device_kinds())
      copy_.builder().set_compute(made, device_kind,
                                  graph_.has_work() ? std::nullopt : std::optional(Duration{}));
    return made;
  }

  /// Copies gradients back from their buckets after the collectives, before updates read them. The
  /// memory of buckets that overlap with the backward pass is persistent; a bucket that is sent
  /// after it is freed here.
  void empty_buckets() {
    for (std::size_t k = 0; k < buckets_.size(); ++k) {
      const Bucket& bucket = buckets_[k];
      const OpId made =
          add_copy("empty/" + name_of(k), bucket.bytes / options_.empty, bucket.device, {});
      copy_.builder().add_control(done_[k], made);
      copy_.builder().add_control(last_of_.at(bucket.device), made);
      if (filled_[k] != no_op && options_.sends_after())
        copy_.builder().add_edge(copy_.builder().add_tensor(filled_[k], bucket.bytes), made);
      done_[k] = last_of_[bucket.device] = made;
    }
  }

  std::string name_of(std::size_t bucket) const { return fmt::format("gradients{}", bucket); }

  void add_due(std::vector<std::size_t>& due, const IdVector<TensorId, TensorId>& tensors) {
    for (const std::size_t k : due) add_collectives(k, tensors);
    due.clear();
  }

  /// Adds the collectives of bucket `k`; its last producer has been added.
  void add_collectives(std::size_t k, const IdVector<TensorId, TensorId>& tensors) {
    const Bucket& bucket = buckets_[k];
    const DeviceId d = bucket.device;
    const std::string name = name_of(k);
    const Phase phase = options_.sends_each_pass() ? Phase::backward : Phase::update;
    OpId first = no_op, last_filled = no_op;
    const auto follow = [&](OpId before, OpId made) {
      if (first == no_op)
        first = made;
      else
        copy_.builder().add_control(before, made);
    };
    if (options_.before_sum > 0.0)
      first = last_filled =
          add_moves("join/" + name, "Copy", options_.before_sum * bucket.bytes, d, phase);
    if (options_.compress < 1.0) {
      const OpId made = add_moves("compress/" + name, "Compress", 4 * bucket.bytes, d, phase);
      follow(first, made);
      if (last_filled != no_op) last_filled = made;
    }
    if (options_.per_gradient > Duration{}) {
      last_filled = add_op({.name = "bucket/" + name,
                            .kind = "Bucket",
                            .compute = options_.per_gradient * std::ssize(bucket.gradients),
                            .phase = phase,
                            .lane = "compute"},
                           d);
      follow(first, last_filled);
    }
    if (options_.fill > Bandwidth{}) {
      filled_[k] = add_copy("fill/" + name, bucket.bytes / options_.fill, d,
                            options_.sends_after() ? Bytes{} : bucket.bytes);
      follow(last_filled != no_op ? last_filled : first, filled_[k]);
      last_filled = filled_[k];
    }
    OpId last = no_op, sent_first = no_op;
    const auto then = [&](OpId made) {
      if (last != no_op) copy_.builder().add_control(last, made);
      if (first == no_op) first = made;
      if (sent_first == no_op) sent_first = made;
      last = made;
    };
    if (first != no_op) last = last_filled != no_op ? last_filled : first;
    const Bytes bytes{static_cast<std::int64_t>(
        std::ceil(options_.compress * static_cast<double>(bucket.bytes.count)))};
    OpId sent_last = no_op;  // the next bucket is sent after it
    const bool expert = bucket.gradients.front().expert;
    const auto collective = [&](CollectiveKind kind, Bytes size, const std::string& of,
                                std::string_view lane = "comm") {
      const bool scatters = kind == CollectiveKind::reduce_scatter;
      then(
          add_collective(kind, size, of, d, phase, scatters ? sharers(expert) : all(expert), lane));
    };
    switch (options_.mode) {
      case Synchronisation::ddp:
      case Synchronisation::after:
        collective(CollectiveKind::all_reduce, bytes, name);
        break;
      case Synchronisation::ps: {
        const std::int64_t servers = options_.servers > 0 ? options_.servers : options_.replicas;
        const double busiest =
            std::max(1.0, static_cast<double>(options_.replicas) / static_cast<double>(servers));
        const Bytes most{saturated(busiest * static_cast<double>(bytes.count))};
        collective(CollectiveKind::send_recv, most, name + "/push");
        sent_last = last;
        collective(CollectiveKind::send_recv, most, name + "/pull", "comm_back");
        break;
      }
      case Synchronisation::zero1:
      case Synchronisation::zero2:
      case Synchronisation::zero3:
        collective(CollectiveKind::reduce_scatter, bytes, name);
        if (groups().ranks > 1)
          then(add_collective(CollectiveKind::all_reduce,
                              Bytes{(bytes.count + options_.sharers() - 1) / options_.sharers()},
                              name, d, phase, groups()));
        break;
    }
    for (const Gradient& g : bucket.gradients) {
      const OpId producer = copy_.copy_of(g.producer);
      if (g.tensor) {
        copy_.builder().add_edge(tensors[*g.tensor], first);
      } else if (options_.shares_gradients(g.expert) > 1) {
        // Whole until it is scattered; then only the shard is kept.
        copy_.builder().add_edge(copy_.builder().add_tensor(producer, g.bytes), first);
      } else {
        copy_.builder().add_control(producer, first);
      }
      for (const AddedGradient& a : g.added) {
        if (a.tensor)
          copy_.builder().add_edge(tensors[*a.tensor], first);
        else
          copy_.builder().add_control(copy_.copy_of(a.producer), first);
      }
    }
    OpId& before = last_of_.try_emplace(d, no_op).first->second;  // buckets go in order
    if (before != no_op)
      copy_.builder().add_control(before, last_filled != no_op ? sent_first : first);
    first_of_.try_emplace(d, first);
    done_[k] = last;
    before = sent_last != no_op ? sent_last : last;
  }

  /// Whether `t` is a gradient of a later micro-batch that is sent separately: then it has memory
  /// of its own, and is not accumulated in workspace (micro_batches).
  bool is_sent_whole(TensorId t) const {
    return options_.sends_each_pass() && graph_.tensor(t).reference && bucket_of_.contains(t);
  }

  /// Whether the update op of `e` reads the collective's output instead of the gradient: it is on
  /// another device, or it reads only its shard.
  bool goes_by_collective(const Edge& e) const {
    const auto bucket = bucket_of_.find(e.tensor);
    if (bucket == bucket_of_.end() || graph_.op(e.dst).phase != Phase::update) return false;
    const bool expert = buckets_[bucket->second].gradients.front().expert;
    return options_.shares_gradients(expert) > 1 || device_[e.dst] != device_[e.src];
  }

  /// An optimizer step follows the whole backward pass: updates wait for all buckets of the device,
  /// hence for the last one. With `ps`, or if the graph itself updates before the end of the
  /// backward pass, they wait for their own bucket only.
  void hand_out(std::size_t k) {
    const Bucket& bucket = buckets_[k];
    const OpId whole = options_.mode == Synchronisation::ps || updates_early_
                           ? done_[k]
                           : last_of_.at(bucket.device);
    for (const Gradient& g : bucket.gradients) {
      std::optional<TensorId> handed;
      for (const OpId u : g.updates) {
        const OpId update = copy_.copy_of(u);
        if (!g.tensor || !goes_by_collective({g.producer, u, *g.tensor})) {
          copy_.builder().add_control(whole, update);
          continue;
        }
        if (!handed)
          handed = copy_.builder().add_tensor(
              whole,
              Bytes{(g.bytes.count + options_.shares_gradients(g.expert) - 1) /
                    options_.shares_gradients(g.expert)},
              g.micro_batch > 0);  // accumulated into the shard of the first
        copy_.builder().add_edge(*handed, update);
      }
    }
  }

  /// Gradients that are sent after the backward pass also wait for the device's last backward ops.
  void wait_for_backward() {
    for (const OpId v : graph_.ops()) {
      const auto first = first_of_.find(device_[v]);
      if (first == first_of_.end() || graph_.op(v).phase != Phase::backward) continue;
      const bool last = std::ranges::none_of(graph_.out_edges(v), [&](EdgeId e) {
        const OpId reader = graph_.edge(e).dst;
        return graph_.op(reader).phase == Phase::backward && device_[reader] == device_[v];
      });
      if (last) copy_.builder().add_control(copy_.copy_of(v), first->second);
    }
  }

  /// [num_ops] Bytes of the gradients that the backward ops of each op hold, unsharded; empty if no
  /// backward op holds any.
  IdVector<OpId, Bytes> held_gradients() const {
    IdVector<OpId, Bytes> held(graph_.num_ops());
    bool any = false;
    for (const OpId v : graph_.ops()) {
      const Op& op = graph_.op(v);
      if (op.phase != Phase::backward || op.forward == no_op || op.persistent == Bytes{}) continue;
      any = true;
      const bool expert = options_.expert > 1 && is_expert(graph_, op.forward);
      held[op.forward] += Bytes{options_.shares_gradients(expert) * op.persistent.count};
    }
    return any ? held : IdVector<OpId, Bytes>{};
  }

  /// With a sharded optimizer, each device's new weights are gathered after all its ops of phase
  /// update, casts included; weights whose updates are on other devices wait for all updates.
  /// Frozen weights are not gathered: the bytes are limited to those of the op's gradients.
  void gather_new_weights() {
    const IdVector<OpId, Bytes> gradients = held_gradients();
    std::map<std::pair<DeviceId, bool>, Bytes> weights;  // of experts and others
    std::map<DeviceId, std::vector<OpId>> updates;
    for (const OpId v : graph_.ops()) {
      const Op& op = graph_.op(v);
      if (op.phase == Phase::forward && op.persistent > Bytes{})
        weights[{device_[v], options_.expert > 1 && is_expert(graph_, v)}] +=
            gradients.empty() ? op.persistent : std::min(op.persistent, gradients[v]);
      if (op.phase == Phase::update) updates[device_[v]].push_back(v);
    }
    for (const auto& [key, bytes] : weights) {
      const auto [d, expert] = key;
      const OpId gather = gather_new(bytes, d, expert);
      for (const auto& [at, ops] : updates)
        if (at == d || !updates.contains(d))
          for (const OpId u : ops) copy_.builder().add_control(copy_.copy_of(u), gather);
    }
  }

  /// Adds the gather of a device's new weights, and returns it, or the first of its broadcasts. A
  /// broadcast of a shard goes from rank to rank, like a gather of as many bytes.
  OpId gather_new(Bytes bytes, DeviceId d, bool expert) {
    const std::string name = fmt::format("{}weights{}", expert ? "expert_" : "", index(d));
    const auto add = [&](Bytes size, const std::string& of) {
      return add_collective(CollectiveKind::all_gather, size, of, d, Phase::update,
                            sharers(expert));
    };
    if (!options_.broadcasts) return add(bytes, name);
    const std::int64_t shares = sharers(expert).ranks;
    const Bytes share{(bytes.count + shares - 1) / shares};
    const OpId first = add(share, name);
    OpId before = first;
    for (std::int64_t k = 1; k < shares; ++k) {
      const OpId next = add(share, fmt::format("{}/{}", name, k));
      copy_.builder().add_control(before, next);
      before = next;
    }
    return first;
  }

  void add_gathers_before(OpId v) {
    for (; next_gather_ < gathers_.size() && gathers_[next_gather_].first_user() == v;
         ++next_gather_) {
      const WeightGather& g = gathers_[next_gather_];
      const OpId made = add_collective(CollectiveKind::all_gather, g.bytes,
                                       fmt::format("weights{}", next_gather_), g.device,
                                       graph_.op(v).phase, sharers(g.expert));
      const TensorId whole = copy_.builder().add_tensor(made, g.bytes);
      if (options_.after_gather == 0.0) {
        gathered_.emplace_back(made, whole);
        continue;
      }
      const OpId split = add_moves(fmt::format("split/weights{}", next_gather_), "Copy",
                                   options_.after_gather * g.bytes, g.device, graph_.op(v).phase);
      copy_.builder().add_edge(whole, split);
      gathered_.emplace_back(made, copy_.builder().add_tensor(split, g.bytes));
    }
  }
  void read_gathered() {
    for (std::size_t k = 0; k < gathers_.size(); ++k) {
      const auto& [gather, weights] = gathered_[k];
      for (const OpId v : gathers_[k].users) copy_.builder().add_edge(weights, copy_.copy_of(v));
      if (gathers_[k].waits_for != no_op)
        copy_.builder().add_control(copy_.copy_of(gathers_[k].waits_for), gather);
    }
  }

  const OpGraph& graph_;
  const IdVector<OpId, DeviceId>& device_;
  const DataParallelOptions& options_;
  GraphCopy copy_;
  std::vector<Bucket> buckets_;
  std::map<OpId, std::vector<std::size_t>> due_;  // buckets whose last gradient the op makes
  std::map<TensorId, std::size_t> bucket_of_;
  std::vector<OpId> done_;             // [buckets] what updates wait for
  std::vector<OpId> filled_;           // [buckets] the op that copied its gradients in, or no_op
  std::map<DeviceId, OpId> first_of_;  // the first op of the first bucket
  std::map<DeviceId, OpId> last_of_;   // the last op of the last bucket so far
  bool updates_early_ = false;         // an op of another phase reads an update's output
  std::vector<WeightGather> gathers_;
  std::size_t next_gather_ = 0;
  std::vector<std::pair<OpId, TensorId>> gathered_;  // [gathers] the member, and what users read
  IdVector<OpId, DeviceId> new_device_;
  std::vector<OpId> joined_;
};

}  // namespace

PlacedStep synchronised(const OpGraph& graph, const IdVector<OpId, DeviceId>& device,
                        const DataParallelOptions& options, std::vector<OpId>& joined) {
  return Synchronising(graph, device, options).run(joined);
}

}  // namespace baechi
