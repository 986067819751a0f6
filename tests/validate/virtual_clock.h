/// Runs plans without a machine, for tests of what measures and scores: by the predictor's rules
/// and a known calibration.
#pragma once

#include "sim/processor_time.h"
#include "sim/random.h"
#include "validate/run_files.h"

namespace baechi::validate {

struct Outcome {
  Replay replay{};
  Duration submit{};           ///< host time for handing over all tasks
  std::vector<Bytes> peaks{};  ///< [devices]
};

/// Effects of a virtual clock that no calibration can know.
struct Unknowns {
  double noise = 0.0;    ///< lengths are off by a normal factor of this deviation, each task's anew
  double jitter_ns = 0;  ///< and gaps by as much, each replay's anew
  double stretch = 1.0;  ///< of all lengths in replays, and of none in benchmarks: an error to find
};

/// Runs plans by the predictor's rules with the gaps, speeds, sharing and slowdowns of `truth`, and
/// with the unknowns. Stamps are cut to truth.timer_tick_ns. Deterministic for a seed.
class VirtualClock {
 public:
  VirtualClock(Calibration truth, Unknowns unknowns, std::uint64_t seed)
      : truth_(std::move(truth)), unknowns_(unknowns), random_(seed) {}
  Machine machine() const;
  Outcome run(const ReplayPlan& plan);
  BenchmarkScale scale() const;
  void set(Unknowns unknowns) { unknowns_ = unknowns; }

 private:
  Calibration truth_;
  Unknowns unknowns_;
  Random random_;
};

/// The calibration of a made-up GPU in `devices` parts, in the range that is expected of real GPUs.
Calibration virtual_truth(int devices);

/// Every plan `replays` times in round 0, then all again in round 1. In each plan, mode and
/// round the first `timelines` replays are kept task by task.
struct ReplayChoice {
  int replays = 30;
  int timelines = 3;
};
void replay_plans(VirtualClock& clock, std::span<const ReplayPlan> plans, ReplayChoice choice,
                  ValidationRun& run);

/// All micro-benchmarks of FORMATS.md on as many devices as the machine has partitions, each
/// `rounds` times.
std::vector<Measurement> run_benchmarks(VirtualClock& clock, int rounds);

/// Writes the files of a harness on that machine, except plans and predictions.
void write_run(const std::string& folder, const VirtualClock& clock, const ValidationRun& run);

/// Writes the files of a harness that ran benchmarks and the plans of `folder`, three times each.
void replay_virtually(const std::string& folder);

}  // namespace baechi::validate
