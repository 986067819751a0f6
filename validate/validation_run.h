/// A folder of a validation run: plans, their predictions, and a machine's measurements.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "validate/run_files.h"

namespace baechi::validate {

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
