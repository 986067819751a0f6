/// Parts of a placement that several devices run, each of which takes its share of the samples.
#pragma once
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "sim/problem/device_classes.h"

namespace baechi {

/// The numbers of replicas that a part may have, and their costs.
///
/// A part on r devices of one class has the load of one device, divided by r and rounded up, plus
/// the exchange of gradients. Each replica moves 4 (r - 1) / r times the part's weights, once in
/// `micro_batches` samples. Each replica holds all weights of the part. Inference exchanges
/// nothing.
/// Source: PipeDream (SOSP 2019) and Piper (NeurIPS 2021), with the loads of Tarnawski et al.
struct Replication {
  bool allowed = false;
  /// Samples between two exchanges; replicas must divide it. 0: as many as the part has replicas,
  /// as in PipeDream.
  std::int64_t micro_batches = 0;
  std::vector<double> ns_per_byte{};  ///< [classes], of links; 0: inference

  /// For `problem`: the mean link of each class, if there is an op of a later phase than
  /// Phase::forward.
  static Replication of(const Problem& problem, const std::vector<DeviceClass>& classes,
                        std::int64_t micro_batches);

  /// Whether `replicas` devices of the class may share a part. Cores never do.
  bool allows(const DeviceClass& cls, std::int64_t replicas) const;
  /// Nanoseconds of exchange per byte of weights.
  double exchange(std::size_t cls, std::int64_t replicas) const;
};

inline constexpr std::int64_t no_load = std::numeric_limits<std::int64_t>::max();

/// Nanoseconds per sample of each of `replicas` devices, if one device had `whole`: a share,
/// rounded up, and `exchange` per byte of `weights`, rounded. no_load: more than can be told.
inline std::int64_t replica_load(std::int64_t whole, std::int64_t weights, std::int64_t replicas,
                                 double exchange) {
  if (replicas == 1) return whole;
  const double exchanged = weights > 0 ? exchange * static_cast<double>(weights) : 0.0;
  if (exchanged > static_cast<double>(no_load) / 2.0) return no_load;
  return whole / replicas + (whole % replicas > 0 ? 1 : 0) + std::llround(exchanged);
}

/// The replicas of a placement. A placement has one device for each op; its facts name the other
/// devices that run the same ops. `stage_N_first` is the number of the device in the placement for
/// part N, counted from 0. `stage_N_devices` devices of its class, from this one on, run the part.
/// `micro_batches` is as in Replication, 0 if there is no such fact.
struct Replicas {
  std::vector<std::vector<DeviceId>> parts;  ///< devices, ascending; the placement has the first
  std::int64_t micro_batches = 0;
};

/// Whether any part of `placement` has more than one device.
bool has_replicas(const Placement& placement);
/// Whether a fact of this name says something of replicas.
bool is_replica_fact(std::string_view name);

/// Throws InputError if the facts are not of this problem: a device that is not there or in two
/// parts, a core with replicas, replicas that do not divide the micro-batches, an op outside of all
/// parts. Nothing if the facts name no parts.
Replicas replicas_of(const Problem& problem, const std::vector<DeviceClass>& classes,
                     const Placement& placement);
/// Writes `replicas` among the facts.
void write_replicas(const Replicas& replicas, std::map<std::string, double>& facts);

}  // namespace baechi
