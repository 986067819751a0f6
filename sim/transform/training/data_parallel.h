/// The options of the transform `data_parallel`, and its two stages.
#pragma once
#include "sim/transform/transform.h"

namespace baechi {

/// How replicas synchronise.
enum class Synchronisation : std::uint8_t { ddp, after, ps, zero1, zero2, zero3 };
constexpr auto names_of(Synchronisation) {
  return std::to_array<Named<Synchronisation>>(
      {{Synchronisation::ddp, "ddp", "gradient all-reduce"},
       {Synchronisation::after, "after", "the same, with 'send: after'"},
       {Synchronisation::ps, "ps", "buckets are pushed to parameter servers and pulled from them"},
       {Synchronisation::zero1, "zero1", "each replica updates its share of the weights"},
       {Synchronisation::zero2, "zero2",
        "and keeps only its share of the gradients, reduce-scattered in each micro-batch"},
       {Synchronisation::zero3, "zero3",
        "and only its share of the weights, gathered where they are read"}});
}

/// When gradients are sent.
enum class Sending : std::uint8_t { by_mode, beside, after };
constexpr auto names_of(Sending) {
  return std::to_array<Named<Sending>>(
      {{Sending::by_mode, "by_mode", "after with modes after and zero1, else beside"},
       {Sending::beside, "beside", "in buckets, overlapped with the backward pass"},
       {Sending::after, "after", "all at once, after the backward pass"}});
}

struct DataParallelOptions {
  std::int64_t replicas = 1;
  std::int64_t nodes = 1;
  Synchronisation mode = Synchronisation::ddp;
  Sending send = Sending::by_mode;
  Bytes bucket{25 << 20};
  Bytes first_bucket{1 << 20};
  bool simulate_all = false;
  double compress = 1.0;
  Bandwidth fill{}, empty{};  ///< 0: buckets are not copied
  /// Bytes moved in device memory per byte of gradients before they are sent, and per byte of
  /// weights after they are gathered.
  double before_sum = 0.0, after_gather = 0.0;
  bool broadcasts = false;  ///< new weights are broadcast by each replica with a share
  double gradients = 0.0;   ///< bytes relative to the weights; 0: as in the graph
  bool stateless = false;
  std::int64_t servers = 0;
  std::int64_t sharing = 1;
  std::int64_t group = 0;   ///< size of a sharding group; 0: all replicas
  std::int64_t expert = 1;  ///< degree of expert parallelism among the replicas
  Duration per_gradient{};  ///< framework time per op with gradients, in which the device idles
  /// Whether the transform has no effect.
  bool alone() const { return replicas == 1 && per_gradient == Duration{}; }
  bool sends_after() const {
    return send == Sending::after || (send == Sending::by_mode && (mode == Synchronisation::after ||
                                                                   mode == Synchronisation::zero1));
  }
  /// Whether each micro-batch sends its gradients, because no replica keeps all of them; else they
  /// are sent once per step, after the last micro-batch.
  bool sends_each_pass() const {
    return mode == Synchronisation::zero2 || mode == Synchronisation::zero3;
  }

  /// Replicas with the same weights; fewer for experts.
  std::int64_t alike(bool experts) const { return experts ? replicas / expert : replicas; }
  /// The number of shards of what the mode shards, and of what ops of a phase hold.
  std::int64_t sharers(bool experts = false) const { return group > 0 ? group : alike(experts); }
  std::int64_t shares_optimizer(bool experts = false) const {
    return mode >= Synchronisation::zero1 ? sharers(experts) : 1;
  }
  std::int64_t shares_gradients(bool experts = false) const {
    return mode >= Synchronisation::zero2 ? sharers(experts) : 1;
  }
  std::int64_t shares_weights(bool experts = false) const {
    return mode == Synchronisation::zero3 ? sharers(experts) : 1;
  }
  std::int64_t shares(Phase of, bool experts) const {
    return of == Phase::forward    ? shares_weights(experts)
           : of == Phase::backward ? shares_gradients(experts)
                                   : shares_optimizer(experts);
  }
};

/// Whether an op belongs to an expert: a part of its name begins with "expert_".
bool is_expert(const OpGraph& graph, OpId v);

/// The step of one replica, with one shard of what the mode shards. Shards are equal, rounded up.
/// Throws InputError if the graph has no gradients, or does not distinguish what is to be sharded.
OpGraph with_shares(const OpGraph& graph, const DataParallelOptions& options);

/// Adds the synchronising collectives to the placed step of one replica, the result of
/// with_shares(). `joined`: receives the members of the collectives in which all replicas take
/// part.
PlacedStep synchronised(const OpGraph& graph, const IdVector<OpId, DeviceId>& device,
                        const DataParallelOptions& options, std::vector<OpId>& joined);

/// `count` copies of a placed step. Copy r of an op on device d is on device
/// d + r * (1 + the largest d). The members `joined` of a collective form one collective with their
/// copies; other collectives are copied.
PlacedStep replicated(const PlacedStep& one, std::int64_t count, const std::vector<OpId>& joined);

}  // namespace baechi
