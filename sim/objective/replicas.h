/// Replicated parts of a placement: several devices, each with an equal share of the samples.
#pragma once
#include <cmath>

#include "sim/problem/problem.h"

namespace baechi {

/// The allowed numbers of replicas of a part, and their costs.
///
/// On r devices of one class a part has 1 / r of its load on one device, rounded up, plus the
/// gradient exchange: each replica moves 4 (r - 1) / r times the part's weights once in
/// `micro_batches` samples. Each replica holds all weights of the part. Inference has no exchange.
/// Source: PipeDream (SOSP 2019) and Piper (NeurIPS 2021), with the loads of Tarnawski et al.
struct Replication {
  bool allowed = false;
  /// Samples between two exchanges, a multiple of the number of replicas. 0: the number of replicas
  /// of the part, as in PipeDream.
  std::int64_t micro_batches = 0;
  std::vector<double> ns_per_byte{};  ///< [classes], of the mean link; 0: inference
  /// For `problem`, which is training if it has an op of a later phase than Phase::forward.
  static Replication of(const Problem& problem, const std::vector<DeviceClass>& classes,
                        std::int64_t micro_batches);

  /// Whether a part may be on `replicas` devices of the class. Cores have no replicas.
  bool allows(const DeviceClass& cls, std::int64_t replicas) const;
  /// Nanoseconds of exchange per byte of weights.
  double exchange(std::size_t cls, std::int64_t replicas) const;
};

inline constexpr std::int64_t no_load = std::numeric_limits<std::int64_t>::max();

/// Nanoseconds per sample of each of `replicas` devices: whole / replicas, rounded up, plus
/// `exchange` per byte of `weights`, rounded. no_load if that overflows.
inline std::int64_t replica_load(std::int64_t whole, std::int64_t weights, std::int64_t replicas,
                                 double exchange) {
  if (replicas == 1) return whole;
  const double exchanged = weights > 0 ? exchange * static_cast<double>(weights) : 0.0;
  if (exchanged > static_cast<double>(no_load) / 2.0) return no_load;
  return whole / replicas + (whole % replicas > 0 ? 1 : 0) + std::llround(exchanged);
}

/// The replicas of a placement. Placement::device has the first device of each part; facts describe
/// the others: `stage_N_first` is the index of the first device of part N, counted from 0, and
/// `stage_N_devices` devices of its class, from this one on, run the part. `micro_batches`: as in
/// Replication, 0 if there is no such fact.
struct Replicas {
  std::vector<std::vector<DeviceId>> parts;  ///< devices, ascending; the placement has the first
  std::int64_t micro_batches = 0;
};

/// Whether any part of `placement` has more than one device.
bool has_replicas(const Placement& placement);
bool is_replica_fact(std::string_view name);

/// Throws InputError if the facts do not fit the problem: a device that does not exist or is in two
/// parts, a core with replicas, replicas that do not divide the micro-batches, an op outside all
/// parts. Empty if the facts name no parts.
Replicas replicas_of(const Problem& problem, const std::vector<DeviceClass>& classes,
                     const Placement& placement);
void write_replicas(const Replicas& replicas, std::map<std::string, double>& facts);

}  // namespace baechi
