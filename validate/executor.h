/// Executors run plans: a GPU elsewhere, through files, or here a virtual clock whose truth is
/// known.
#pragma once
#include <vector>

#include "validate/run_files.h"

namespace baechi::validate {

/// One replay of a plan.
struct Outcome {
  Verdict verdict = Verdict::ok;
  Replay replay{};             ///< empty unless ok
  Duration submit{};           ///< host time for handing over all tasks
  std::vector<Bytes> peaks{};  ///< [devices], or empty
};

class Executor {
 public:
  virtual ~Executor() = default;
  virtual Machine machine() const = 0;
  virtual Outcome run(const ReplayPlan& plan) = 0;
  /// The part of `budget` that can be allocated.
  virtual Bytes usable(Bytes budget) const = 0;
  virtual BenchmarkScale scale() const { return {}; }
};

}  // namespace baechi::validate
