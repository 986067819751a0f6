/// Who runs plans: a GPU elsewhere, through files, or here a virtual clock whose truth is known.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "sim/random.h"
#include "validate/run_files.h"

namespace baechi {

struct Outcome {
  Verdict verdict = Verdict::ok;
  Replay replay{};    ///< nothing unless ok
  Duration submit{};  ///< host time, of all tasks
  std::vector<Bytes> peaks{};
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual Machine machine() const = 0;
  virtual Outcome run(const ReplayPlan& plan) = 0;
  /// What can be allocated of a budget.
  virtual Bytes usable(Bytes budget) const = 0;
};

/// What a virtual clock does that no calibration can know.
struct Unknowns {
  double noise = 0.0;    ///< lengths are off by a normal factor of this deviation, each task's anew
  double jitter_ns = 0;  ///< and gaps by as much, each replay's anew
  double stretch = 1.0;  ///< of all lengths in replays, and of none in benchmarks: an error to find
};

/// Runs plans by the predictor's rules with the gaps, speeds, sharing and slowdowns of `truth`, and
/// what is unknown. Stamps are cut to truth.timer_tick_ns. Deterministic for a seed.
class VirtualClock final : public Executor {
 public:
  VirtualClock(Calibration truth, Unknowns unknowns, std::uint64_t seed)
      : truth_(std::move(truth)), unknowns_(unknowns), random_(seed) {}
  Machine machine() const override;
  Outcome run(const ReplayPlan& plan) override;
  Bytes usable(Bytes budget) const override;
  void set(Unknowns unknowns) { unknowns_ = unknowns; }

 private:
  Calibration truth_;
  Unknowns unknowns_;
  Random random_;
};

/// Of a made-up GPU in `devices` parts, in the range of what is expected of real ones.
Calibration virtual_truth(int devices);

/// All micro-benchmarks of FORMATS.md on as many devices as the machine has partitions, each
/// `rounds` times.
std::vector<Measurement> run_benchmarks(Executor& executor, int rounds);

/// Every plan `replays` times in round 0, then all again in round 1. Of each plan, mode and round
/// the first `timelines` replays are kept task by task.
struct ReplayChoice {
  int replays = 30;
  int timelines = 3;
};
void replay_plans(Executor& executor, std::span<const ReplayPlan> plans, ReplayChoice choice,
                  RunFolder& run);

}  // namespace baechi
