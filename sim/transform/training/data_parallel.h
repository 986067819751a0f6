/// What `data_parallel` is told, and the two halves of its work.
#pragma once
#include <cstdint>
#include <string>

#include "sim/names.h"
#include "sim/transform/transform.h"

namespace baechi {

/// When and how replicas put their gradients together.
enum class Synchronisation : std::uint8_t { ddp, after, ps, zero1, zero2, zero3 };
constexpr auto names_of(Synchronisation) {
  return std::to_array<Named<Synchronisation>>(
      {{Synchronisation::ddp, "ddp", "gradients are added up"},
       {Synchronisation::after, "after", "the same, and 'send' is after"},
       {Synchronisation::ps, "ps", "buckets are pushed to parameter servers and pulled from them"},
       {Synchronisation::zero1, "zero1", "each replica updates its share of the weights"},
       {Synchronisation::zero2, "zero2",
        "and keeps its share of the gradients only, which each micro-batch sends"},
       {Synchronisation::zero3, "zero3",
        "and its share of the weights, gathered where they are read"}});
}

/// When gradients are sent.
enum class Sending : std::uint8_t { by_mode, beside, after };
constexpr auto names_of(Sending) {
  return std::to_array<Named<Sending>>(
      {{Sending::by_mode, "by_mode", "after with modes after and zero1, else beside"},
       {Sending::beside, "beside", "in buckets, beside the backward pass"},
       {Sending::after, "after", "all at once, when the last is there"}});
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
  /// Bytes that a device moves in its own memory for each byte of gradients before they are sent,
  /// and of weights after they are gathered.
  double before_sum = 0.0, after_gather = 0.0;
  bool broadcasts = false;  ///< of new weights, one from each replica that has a share
  double gradients = 0.0;   ///< share of the weights; 0: as the graph has them
  bool stateless = false;
  std::int64_t servers = 0;
  std::int64_t sharing = 1;
  std::int64_t group = 0;   ///< replicas that divide what a mode divides; 0: all
  std::int64_t expert = 1;  ///< replicas that share experts, of which each has a part
  Duration
      per_gradient{};  ///< the device waits so long for each op whose gradients are put together

  /// Whether there is nothing to do.
  bool alone() const { return replicas == 1 && per_gradient == Duration{}; }
  bool sends_after() const {
    return send == Sending::after || (send == Sending::by_mode && (mode == Synchronisation::after ||
                                                                   mode == Synchronisation::zero1));
  }
  /// Whether each micro-batch sends its gradients, because nobody keeps them whole; else they are
  /// sent once a step, behind the last micro-batch.
  bool sends_each_pass() const {
    return mode == Synchronisation::zero2 || mode == Synchronisation::zero3;
  }

  /// Replicas that have the same weights: of experts fewer.
  std::int64_t alike(bool experts) const { return experts ? replicas / expert : replicas; }
  /// How many replicas share what a mode divides, and what the ops of a phase hold.
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

/// Whether an op is of an expert, by its name: a part of it begins with "expert_".
bool is_expert(const OpGraph& graph, OpId v);

/// The step of one replica: of what the mode divides by the replicas, one share. Shares are equal,
/// rounded up. Throws InputError if the graph has no gradients, or does not tell apart what is to
/// be divided.
OpGraph with_shares(const OpGraph& graph, const DataParallelOptions& options);

/// The placed step of one replica, made by with_shares(), with the collectives that replicas
/// synchronise by. `joined`: receives the members of those collectives that all replicas take part
/// in.
PlacedStep synchronised(const OpGraph& graph, const IdVector<OpId, DeviceId>& device,
                        const DataParallelOptions& options, std::vector<OpId>& joined);

/// `count` copies of a placed step. Op v of copy r is on device d + r * (1 + the largest d), if v
/// is on d. The members `joined` of a collective and of its copies are one collective; other
/// collectives are copied.
PlacedStep replicated(const PlacedStep& one, std::int64_t count, const std::vector<OpId>& joined);

}  // namespace baechi
