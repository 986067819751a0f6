/// Stages of a pipeline that run on several devices, each of which takes its share of the samples.
#pragma once
#include <cstdint>
#include <vector>

#include "placers/exact/blocks.h"

namespace baechi::exact {

/// Which numbers of replicas a stage may have, and what they cost.
///
/// A stage on r devices of one class has the load of one device, divided by r and rounded up, plus
/// the exchange of gradients: each replica moves 4 (r - 1) / r times the stage's weights, once in
/// `micro_batches` samples. Each replica holds all weights of the stage. Inference exchanges
/// nothing. Source: PipeDream (SOSP 2019) and Piper (NeurIPS 2021), with the loads of Tarnawski et
/// al.
struct Replication {
  bool allowed = false;
  /// Samples between two exchanges; replicas must divide it. 0: as many as the stage has replicas,
  /// as in PipeDream.
  std::int64_t micro_batches = 0;
  std::vector<double> ns_per_byte{};  ///< [classes], of links; 0: inference

  /// For `problem`: the mean link of each class, if there is an op of a later phase than
  /// Phase::forward.
  static Replication of(const Problem& problem, const std::vector<DeviceClass>& classes,
                        std::int64_t micro_batches);

  /// Whether `replicas` devices of the class may share a stage. Cores never do.
  bool allows(const DeviceClass& cls, std::int64_t replicas) const;
  /// Nanoseconds of exchange per byte of weights.
  double exchange(std::size_t cls, std::int64_t replicas) const;
};

}  // namespace baechi::exact
