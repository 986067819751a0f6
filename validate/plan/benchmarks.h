/// The micro-benchmarks: small plans, and their times that are samples. ../FORMATS.md defines the
/// samples and their lines in measurements.csv.
#pragma once

#include "validate/plan/timeline.h"

namespace baechi::validate {

struct Measurement {
  std::string what{}, mode{}, way{}, subject{}, args{}, against{};
  std::int64_t count = 0, round = 0;
  double value = 0.0;

  static const char* header();
  std::string line() const;
  friend bool operator==(const Measurement&, const Measurement&) = default;
};

/// The sizes of a device's benchmarks; the defaults are for a part of a GPU.
struct BenchmarkScale {
  /// How long a link takes, in ns: `fixed`, and so many for each 10,000 bytes.
  struct Pace {
    std::int64_t fixed = 0, per_10_000 = 0;
  };
  std::vector<SubmitMode> modes{SubmitMode::graph, SubmitMode::stream};
  std::vector<Body> ops = ops_of_gpu();
  std::vector<Body> in_chains{{.kind = BodyKind::gemm, .args = {512}},
                              {.kind = BodyKind::ew, .args = {4 << 20}}};
  std::vector<Body> subjects{{.kind = BodyKind::spin, .args = {100'000}},
                             {.kind = BodyKind::gemm, .args = {1024}},
                             {.kind = BodyKind::gemm, .args = {2048}},
                             {.kind = BodyKind::ew, .args = {4 << 20}},
                             {.kind = BodyKind::ew, .args = {256 << 20}}};
  /// Long enough to outlast the subjects on a GPU where all of these take 0.1 to 1 ms.
  std::vector<Body> neighbours{{.kind = BodyKind::spin, .args = {500'000}},
                               {.kind = BodyKind::gemm, .args = {2048}},
                               {.kind = BodyKind::ew, .args = {512 << 20}}};
  std::int64_t largest_copy = 64 << 20, copies_at_once = 16 << 20;  ///< bytes
  /// 10 us and 20 GB/s, as of a link between GPUs; and Baechi's own fit, 134 us and 5.7 GB/s.
  std::vector<Pace> paces{{10'000, 500}, {134'000, 1754}};

  static std::vector<Body> ops_of_gpu();
};

}  // namespace baechi::validate

namespace baechi::validate::replay {

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
  int devices = 4;      ///< of one, no transfers are measured
  bool cublas = false;  ///< products of cuBLAS, too
  BenchmarkScale scale{};
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
