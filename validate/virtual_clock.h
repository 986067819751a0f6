/// An executor without a machine: it runs plans by the predictor's rules and a known calibration.
#pragma once
#include <cstdint>

#include "sim/random.h"
#include "validate/executor.h"

namespace baechi::validate {

/// Effects of a virtual clock that no calibration can know.
struct Unknowns {
  double noise = 0.0;    ///< lengths are off by a normal factor of this deviation, each task's anew
  double jitter_ns = 0;  ///< and gaps by as much, each replay's anew
  double stretch = 1.0;  ///< of all lengths in replays, and of none in benchmarks: an error to find
};

/// Runs plans by the predictor's rules with the gaps, speeds, sharing and slowdowns of `truth`, and
/// with the unknowns. Stamps are cut to truth.timer_tick_ns. Deterministic for a seed.
class VirtualClock final : public Executor {
 public:
  VirtualClock(Calibration truth, Unknowns unknowns, std::uint64_t seed)
      : truth_(std::move(truth)), unknowns_(unknowns), random_(seed) {}
  Machine machine() const override;
  Outcome run(const ReplayPlan& plan) override;
  Bytes usable(Bytes budget) const override;
  BenchmarkScale scale() const override;
  void set(Unknowns unknowns) { unknowns_ = unknowns; }

 private:
  Calibration truth_;
  Unknowns unknowns_;
  Random random_;
};

/// The calibration of a made-up GPU in `devices` parts, in the range that is expected of real GPUs.
Calibration virtual_truth(int devices);

}  // namespace baechi::validate
