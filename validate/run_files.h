/// A folder of a validation run: plans, their predictions, and a machine's measurements, as
/// validate/FORMATS.md says.
#pragma once
#include <map>

#include "validate/plan/benchmarks.h"
#include "validate/predictor.h"

namespace baechi::validate {

struct Machine {
  std::string gpu{}, driver{}, cuda{}, harness{}, date{};
  int sms = 0;
  std::vector<Calibration::Partition> partitions{};
  std::string disjoint = "unknown";
  double clock_mhz[2]{};
  double timer_tick_ns = 1.0;
  std::vector<std::pair<std::string, std::string>> more{};  ///< other keys
};

enum class Verdict : std::uint8_t { ok, oom, failed };
constexpr auto names_of(Verdict) { return enumerators<Verdict::failed>(); }

struct StepRow {
  std::string plan{};
  std::int64_t replay = 0, round = 0;
  std::string mode{};
  std::optional<Duration> step{}, submit{};
  Verdict verdict = Verdict::ok;
  std::vector<Bytes> peaks{};  ///< [devices], or empty
  friend bool operator==(const StepRow&, const StepRow&) = default;
};

/// The tasks of one replay that carry stamps.
struct TaskTimes {
  std::string plan{}, mode{};
  std::int64_t replay = 0, round = 0;
  struct Row {
    int task = 0;
    Duration start{}, end{};
    friend bool operator==(const Row&, const Row&) = default;
  };
  std::vector<Row> rows{};
  friend bool operator==(const TaskTimes&, const TaskTimes&) = default;
};

struct Prediction {
  std::string name{};
  std::uint64_t hash = 0;
  Verdict verdict = Verdict::ok;
  std::vector<Bytes> peaks{};
  Replay replay{};
};

std::string prediction_csv(const Prediction& prediction);

/// Each throws InputError with path:line:column, up to 20 mistakes at once.
Machine parse_machine(std::string_view text, const std::string& path);
std::vector<Measurement> parse_measurements(std::string_view text, const std::string& path);
std::vector<StepRow> parse_steps(std::string_view text, const std::string& path);
std::vector<TaskTimes> parse_timeline(std::string_view text, const std::string& path);
Prediction parse_prediction(std::string_view text, const std::string& path);

/// The contents of the folder. Files may be compressed, with .gz or .zst behind their names or not.
struct ValidationRun {
  std::string path;
  std::vector<ReplayPlan> plans;                  ///< by file name
  std::map<std::string, Prediction> predictions;  ///< by plan; not every plan has one
  std::optional<Machine> machine;
  std::vector<Measurement> measurements;
  std::vector<StepRow> steps;
  std::vector<TaskTimes> timeline;
};

/// Reads the folder at `path`; missing files are empty. Throws InputError if a file is broken, two
/// plans have one name, or a replay or prediction names no plan, another hash, or tasks that its
/// plan does not have.
ValidationRun read_run(const std::string& path);

/// The *.plan files of `folder`, by file name. Throws InputError as read_run().
std::vector<ReplayPlan> read_plans(const std::string& folder);
/// One plan, compressed or not. Throws InputError with path:line:column, up to 20 mistakes at once.
ReplayPlan read_plan(const std::string& path);

}  // namespace baechi::validate
