#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>

#include "sim/saturated.h"
#include "sim/transform/graph_copy.h"
#include "sim/transform/training/data_parallel.h"
#include "sim/transform/training/gradients.h"
#include "sim/transform/training/weight_gathers.h"

namespace baechi {
namespace {

/// Adds the collectives to a copy of a replica's placed step. Ids of made things are the builder's.
class Synchronising {
 public:
  Synchronising(const OpGraph& graph, const IdVector<OpId, DeviceId>& device,
                const DataParallelOptions& options)
      : graph_(graph), device_(device), options_(options), copy_(graph) {
    const std::vector<Gradient> gradients =
        options.gradients > 0.0
            ? assumed_gradients(graph,
                                options.gradients * static_cast<double>(options.shares_weights()))
            : gradients_of(graph, options.shares_gradients());
    const bool at_once = options.mode == Synchronisation::after;
    const Bytes unlimited{std::numeric_limits<std::int64_t>::max()};
    buckets_ = buckets_of(gradients, device, at_once ? unlimited : options.first_bucket,
                          at_once ? unlimited : options.bucket);
    done_.resize(buckets_.size(), no_op);
    if (options.mode == Synchronisation::zero3)
      gathers_ = weight_gathers(graph, device, options.replicas, options.bucket);
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
    for (const OpId v : graph_.ops()) {
      add_gathers_before(v);
      const OpId made = copy_.add(v, copy_.spec(v));
      place(made, device_[v]);
      copy_.add_kernels(v, made);
      for (const TensorId t : graph_.outputs(v))
        if (!graph_.tensor(t).control)
          tensors[t] = copy_.add_tensor(t, made, graph_.tensor(t).size);
      const auto due = due_.find(v);
      if (due == due_.end()) continue;
      for (const std::size_t k : due->second) add_collectives(k, tensors);
    }
    copy_.add_edges(tensors, [&](const Edge& e) { return !goes_by_collective(e); });
    for (std::size_t k = 0; k < buckets_.size(); ++k) hand_out(k);
    read_gathered();
    IdVector<OpId, OpId> renumbered;
    PlacedStep step;
    step.graph = std::move(copy_).built(&renumbered).graph;
    step.device.assign(new_device_.size(), DeviceId{});
    for (const OpId made : renumbered.ids()) step.device[renumbered[made]] = new_device_[made];
    for (const OpId made : joined_) joined.push_back(renumbered[made]);
    return step;
  }

 private:
  void place(OpId made, DeviceId d) {
    BAECHI_CHECK(index(made) == new_device_.size(), "ops are placed as they are added");
    new_device_.push_back(d);
  }

  /// An op that takes no time of its own.
  OpId add_op(const std::string& name, DeviceId d, Phase phase, std::string_view kind) {
    const OpId made = copy_.builder().add_op({.name = name, .kind = kind, .phase = phase});
    for (const std::string& device_kind : graph_.device_kinds())
      copy_.builder().set_compute(made, device_kind, Duration{});
    place(made, d);
    return made;
  }

  /// A collective of this device and those that are at its place in the other replicas.
  OpId add_collective(CollectiveKind kind, Bytes bytes, const std::string& of, DeviceId d,
                      Phase phase) {
    const OpId made = add_op(fmt::format("{}/{}", to_text(kind), of), d, phase, to_text(kind));
    const bool pair = kind == CollectiveKind::send_recv;
    copy_.builder().add_collective(
        {.kind = kind,
         .bytes = bytes,
         .ranks = pair ? 2U : static_cast<std::uint32_t>(options_.replicas),
         .nodes = options_.simulate_all ? 0U : static_cast<std::uint32_t>(options_.nodes),
         .sharing = static_cast<std::uint32_t>(options_.sharing)},
        std::span(&made, 1));
    if (!pair) joined_.push_back(made);
    return made;
  }

  std::string name_of(std::size_t bucket) const { return fmt::format("gradients{}", bucket); }

  /// What is sent of a bucket in the mean step: `share` of its bytes where replicas synchronise.
  Bytes sent(Bytes bytes, double share) const {
    return {static_cast<std::int64_t>(std::ceil(share / static_cast<double>(options_.period) *
                                                static_cast<double>(bytes.count)))};
  }

  /// Bucket `k` is put together; its last producer has just been added.
  void add_collectives(std::size_t k, const IdVector<TensorId, TensorId>& tensors) {
    const Bucket& bucket = buckets_[k];
    const DeviceId d = bucket.device;
    const std::string name = name_of(k);
    OpId first = no_op;
    if (options_.compress < 1.0) {
      first = copy_.builder().add_op(
          {.name = "compress/" + name, .kind = "Compress", .phase = Phase::update});
      place(first, d);
      copy_.builder().add_kernel(first, {.traffic = 4 * bucket.bytes});
      for (const std::string& kind : graph_.device_kinds())
        copy_.builder().set_compute(first, kind,
                                    graph_.has_work() ? std::nullopt : std::optional(Duration{}));
    }
    OpId last = no_op;
    const auto then = [&](OpId made) {
      if (last != no_op) copy_.builder().add_control(last, made);
      if (first == no_op) first = made;
      last = made;
    };
    if (first != no_op) last = first;
    const Bytes bytes = sent(bucket.bytes, options_.compress);
    const auto collective = [&](CollectiveKind kind, Bytes size, const std::string& of) {
      then(add_collective(kind, size, of, d, Phase::update));
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
        collective(CollectiveKind::send_recv, most, name + "/pull");
        break;
      }
      case Synchronisation::zero1:
      case Synchronisation::zero2:
      case Synchronisation::zero3:
        collective(CollectiveKind::reduce_scatter, bytes, name);
        break;
    }
    for (const Gradient& g : bucket.gradients) {
      const OpId producer = copy_.copy_of(g.producer);
      if (g.tensor) {
        copy_.builder().add_edge(tensors[*g.tensor], first);
      } else if (options_.shares_gradients() > 1) {
        // Whole until it is scattered; only the share stays.
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
    if (before != no_op) copy_.builder().add_control(before, first);
    before = done_[k] = last;
  }

  /// Whether what `e` hands to an update op comes from the collective instead: the update is on
  /// another device, or it reads its share alone.
  bool goes_by_collective(const Edge& e) const {
    const auto bucket = bucket_of_.find(e.tensor);
    if (bucket == bucket_of_.end() || graph_.op(e.dst).phase != Phase::update) return false;
    return options_.shares_gradients() > 1 || device_[e.dst] != device_[e.src];
  }

  /// Updates wait for their bucket. With shares of the optimizer the new weights are then gathered,
  /// unless they are gathered where they are read.
  void hand_out(std::size_t k) {
    const Bucket& bucket = buckets_[k];
    std::set<OpId> updates;
    for (const Gradient& g : bucket.gradients) {
      std::optional<TensorId> handed;
      for (const OpId u : g.updates) {
        updates.insert(u);
        const OpId update = copy_.copy_of(u);
        if (!g.tensor || !goes_by_collective({g.producer, u, *g.tensor})) {
          copy_.builder().add_control(done_[k], update);
          continue;
        }
        if (!handed)
          handed = copy_.builder().add_tensor(
              done_[k], Bytes{(g.bytes.count + options_.shares_gradients() - 1) /
                              options_.shares_gradients()});
        copy_.builder().add_edge(*handed, update);
      }
    }
    if (options_.mode != Synchronisation::zero1 && options_.mode != Synchronisation::zero2) return;
    const OpId gather = add_collective(CollectiveKind::all_gather, sent(bucket.bytes, 1.0),
                                       fmt::format("weights{}", k), bucket.device, Phase::update);
    copy_.builder().add_control(done_[k], gather);
    for (const OpId u : updates) copy_.builder().add_control(copy_.copy_of(u), gather);
  }

  /// Adds the collectives that gather weights for `v` first.
  void add_gathers_before(OpId v) {
    for (; next_gather_ < gathers_.size() && gathers_[next_gather_].first_user() == v;
         ++next_gather_) {
      const WeightGather& g = gathers_[next_gather_];
      const OpId made =
          add_collective(CollectiveKind::all_gather, g.bytes,
                         fmt::format("weights{}", next_gather_), g.device, graph_.op(v).phase);
      gathered_.emplace_back(made, copy_.builder().add_tensor(made, g.bytes));
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
  std::vector<OpId> done_;            // [buckets] what updates wait for
  std::map<DeviceId, OpId> last_of_;  // the last op of the last bucket so far
  std::vector<WeightGather> gathers_;
  std::size_t next_gather_ = 0;
  std::vector<std::pair<OpId, TensorId>> gathered_;  // [gathers] the member and what it writes
  IdVector<OpId, DeviceId> new_device_;
  std::vector<OpId> joined_;
};

}  // namespace

PlacedStep synchronised(const OpGraph& graph, const IdVector<OpId, DeviceId>& device,
                        const DataParallelOptions& options, std::vector<OpId>& joined) {
  return Synchronising(graph, device, options).run(joined);
}

}  // namespace baechi
