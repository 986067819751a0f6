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

/// The sizes with which an executor is benchmarked.
struct BenchmarkScale {
  std::vector<SubmitMode> modes{SubmitMode::graph, SubmitMode::stream};
  std::vector<std::int64_t> gemm{128, 256, 512, 768, 1024, 2048};            ///< n
  std::vector<std::int64_t> ew{1 << 16, 1 << 18, 1 << 20, 1 << 22, 1 << 24,  ///< bytes
                               1 << 26, 1 << 28};
  bool warm = false;  ///< an op follows a spin, and is measured twice
  std::int64_t gemm_beside = 1024, ew_beside = 64 << 20;  ///< while neighbours run the same
  std::int64_t largest_copy = 64 << 20, copies_at_once = 16 << 20;  ///< bytes
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
