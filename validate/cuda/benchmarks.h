/// The micro-benchmarks: small plans, and their times that are samples. ../FORMATS.md defines the
/// samples and their lines in measurements.csv.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "validate/cuda/timeline.h"
#include "validate/plan/plan.h"

namespace baechi::validate::replay {

struct Measurement {
  std::string what{}, mode{}, way{}, subject{}, args{}, against{};
  int count = 1;
  int round = 0;
  double value = 0;

  static const char* header();
  std::string line() const;
};

struct Benchmark {
  enum class Value {
    gaps,        ///< of each op to the op before it, but for the first two
    submission,  ///< host time of the step; of single tasks, beyond the first, in mode stream
    hand_over,   ///< end of the last producer to the last start of a reader
    fan_in,      ///< of each reader to the last end of its predecessors
    lengths,     ///< of the subjects
  };
  Measurement row{};  ///< all but round and value
  ReplayPlan plan{};
  Value value = Value::gaps;
  std::vector<int> subjects{};    ///< tasks: of hand_over the producers, of lengths those meant
  std::vector<int> readers{};     ///< of hand_over
  std::vector<int> neighbours{};  ///< of lengths: a sample counts only if these, device by device,
                                  ///< were busy from its start to its end

  /// In ns. Host time until the first task, and until all, was handed over: `first_ns`,
  /// `submit_ns`.
  std::vector<double> samples(const Timeline& times, std::int64_t first_ns,
                              std::int64_t submit_ns) const;
};

struct BenchmarkOptions {
  int devices = 4;  ///< at least 2
  bool cublas = false;
};

std::vector<Benchmark> benchmarks(const BenchmarkOptions& options);

/// A GEMM alone on device 0, in mode graph: its length tells whether the clock has moved.
Benchmark canary();

/// A plan of `devices` devices and nothing yet, without limits on memory.
ReplayPlan empty_plan(const std::string& name, int devices, SubmitMode mode, Way way);

/// Adds an op and returns its number. `after` ascends.
int add_op(ReplayPlan& plan, int device, const Body& body, std::vector<int> after = {});
int add_spin(ReplayPlan& plan, int device, std::int64_t ns, std::vector<int> after = {});
int add_transfer(ReplayPlan& plan, int from, int to, std::int64_t bytes, std::int64_t ns,
                 std::vector<int> after = {});

}  // namespace baechi::validate::replay
