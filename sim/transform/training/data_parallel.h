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
      {{Synchronisation::ddp, "ddp", "buckets are added up while the backward pass goes on"},
       {Synchronisation::after, "after", "all gradients are added up when the last is there"},
       {Synchronisation::ps, "ps", "buckets are pushed to parameter servers and pulled from them"},
       {Synchronisation::zero1, "zero1", "each replica updates its share of the weights"},
       {Synchronisation::zero2, "zero2", "and keeps its share of the gradients only"},
       {Synchronisation::zero3, "zero3",
        "and its share of the weights, gathered where they are read"}});
}

struct DataParallelOptions {
  std::int64_t replicas = 1;
  std::int64_t nodes = 1;
  Synchronisation mode = Synchronisation::ddp;
  Bytes bucket{25 << 20};
  Bytes first_bucket{1 << 20};
  bool simulate_all = false;
  double compress = 1.0;
  std::int64_t period = 1;
  double gradients = 0.0;  ///< share of the weights; 0: as the graph has them
  std::int64_t servers = 0;
  std::int64_t sharing = 1;

  /// How many replicas share what a mode divides.
  std::int64_t shares_optimizer() const { return mode >= Synchronisation::zero1 ? replicas : 1; }
  std::int64_t shares_gradients() const { return mode >= Synchronisation::zero2 ? replicas : 1; }
  std::int64_t shares_weights() const { return mode == Synchronisation::zero3 ? replicas : 1; }
};

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
