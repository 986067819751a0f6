/// A paper's tables: its published numbers beside the numbers of our scenarios.
#pragma once

#include "scenarios/read/scenario.h"
#include "sim/processor_time.h"

namespace baechi {

/// A row's server: `baechi study configure FILE --where ... --threads N --interference F`.
struct ServingRow {
  std::string file;
  std::map<std::string, std::string> where;  ///< column -> word; names one profile
  std::int64_t threads = 1;
  double interference = 1.0;
};

enum class Metric : std::uint8_t {
  step_time,          ///< s
  placing_time,       ///< s, wall clock, transforms included
  processor_time,     ///< s, of placing: sum over all its threads, transforms included
  placed_ops,         ///< ops that the placer saw
  peak_memory,        ///< bytes, of the device with the highest, second highest, ... peak
  slowdown,           ///< step time over that of a profile without error
  max_load,           ///< s, by the objective of that name
  latency,            ///< s, by the objective of that name
  codesign_step,      ///< s, of the best architecture (scenarios/studies/codesign/)
  codesign_gain,      ///< its throughput over the reference's
  codesign_visited,   ///< share of the architectures that the search visited, in percent
  time_per_sample,    ///< s, of the slowest stage by a planner's own formula
  simulated_sample,   ///< s, of one simulated batch of a plan, per sample
  fact,               ///< a fact of the placement, by name
  throughput,         ///< samples per second
  flops_utilisation,  ///< share of the devices' peak, over the step
  busy,               ///< share of the step in which the devices run ops
  saved,              ///< share of the step's time that the row's `set` saves
  one_instance,       ///< s: an inference server's latency with one instance of all threads
  serving_latency,    ///< s: the same with the best configuration
  serving_speed_up,   ///< the one over the other; of several batches the mean
  serving_instances,  ///< of the best configuration
};
constexpr auto names_of(Metric) { return enumerators<Metric::serving_instances>(); }
/// A time of this machine, which differs from run to run.
bool is_time_of_placing(Metric metric);
bool is_codesign(Metric metric);
/// The name of the objective that a metric is the value of; "" for the other metrics.
std::string_view objective_of(Metric metric);
/// A figure of an inference server: at one batch, or the mean over several.
bool is_serving(Metric metric);

/// The settings of a column, the same in every row.
struct PaperColumn {
  std::string name;
  std::string placer;  ///< its label in the row's scenario; "" where is_codesign(metric)
  Metric metric{};
  std::string fact;                          ///< its name, where `metric` is one
  std::vector<std::string> sets;             ///< KEY=VALUE, over those of the row
  std::size_t rank = 0;                      ///< of peak_memory: the device with the highest is 0
  std::string of = "mean";                   ///< of the seeds: min, mean or max
  bool counted = true;                       ///< in the table's mean deviation
  std::vector<std::int64_t> batches;         ///< of the metrics of servers
  std::map<std::string, std::string> where;  ///< of published numbers in files, besides the row's
  double over = 1.0;                         ///< published numbers in files are divided by it
};

/// A number, out of memory, or one that the paper has but we cannot read.
struct PaperValue {
  bool oom = false;
  bool unread = false;
  double number = 0.0;
  bool over = false;        ///< of an objective: although the weights do not fit
  bool in_file = false;     ///< of a file outside the repository: results.csv does not repeat it
  bool unfinished = false;  ///< of a search that a limit ended
};

struct PaperRow {
  std::string label;
  std::string scenario;              ///< path; "" for cells of the paper alone
  std::vector<std::string> sets;     ///< KEY=VALUE into it
  std::string calibration;           ///< "" for none
  std::optional<double> arithmetic;  ///< the paper's own product, as `ours`
  std::vector<std::string>
      base;  ///< metric `saved`: the step compared with, KEY=VALUE as in `sets`
  std::optional<ServingRow> server;             ///< instead of a scenario
  std::map<std::string, PaperValue> published;  ///< by column
};

struct PaperTable {
  std::string name, title, notes;
  double unit = 1.0;  ///< of published numbers, in seconds, bytes or one
  std::string unit_name;
  std::vector<std::string> sets;   ///< KEY=VALUE, before those of each row
  std::vector<double> neighbours;  ///< further speeds to try, as factors of the calibrated one
  std::vector<PaperColumn> columns;
  std::vector<PaperRow> rows;
};

/// A model's one number: the speed of the devices is set so that `placer`'s step takes `step_time`.
struct PaperCalibration {
  std::string name, scenario, placer;
  std::vector<std::string> sets;
  Duration step_time{};
};

struct Paper {
  std::string name, folder, title, source;
  std::string missing;  ///< why it cannot be run here, "" if it can
  std::vector<PaperCalibration> calibrations;
  std::vector<PaperTable> tables;
};

/// FOLDER/paper.yaml. Mistakes are added to `mistakes`. `inputs` lists folders outside the
/// repository that may hold the inputs of its scenarios. The first existing folder replaces every
/// ${inputs} in `set` and in names of files. If none exists, the paper says which files are
/// missing.
Paper load_paper(const std::string& folder, Mistakes& mistakes);

struct PaperCell {
  std::optional<PaperValue> published, ours;  ///< ours: in the table's unit
  bool calibrated = false;                    ///< the very number that the calibration took
  bool one_device = false;                    ///< our placement uses a single device
  double least = 0.0, most = 0.0;  ///< ours over all neighbouring calibrations; 0: not tried
  /// ours / published - 1.
  std::optional<double> deviation() const;
};

struct PaperTableResult {
  std::vector<std::vector<PaperCell>> cells;  ///< [rows][columns]
  std::size_t deviations = 0;                 ///< counted cells with numbers on both sides
  double mean_deviation = 0.0;                ///< mean of their absolute values
  std::size_t split_deviations = 0;   ///< those of them where our placement uses several devices
  double split_mean_deviation = 0.0;  ///< mean of their absolute values
  std::size_t ranked_rows = 0, right_rows = 0;
  double kendall = 0.0;  ///< mean over the ranked rows, of step times
  std::size_t oom_cells = 0, right_oom = 0;
};

struct PaperResult {
  std::map<std::string, double> speeds;  ///< of calibrations
  std::vector<PaperTableResult> tables;  ///< as Paper::tables
};

/// Runs all tables. Throws InputError where a scenario is wrong, std::runtime_error where a run
/// fails.
PaperResult evaluate(const Paper& paper, std::size_t threads, const Watch& watch);

std::string to_text(const Paper& paper, const PaperResult& result);
std::string to_markdown(const Paper& paper, const PaperResult& result);
/// table,row,column,published,ours,deviation, and where a table has neighbours least,most. Columns
/// of wall-clock times are left out. A published number of a file is "in file".
std::string to_csv(const Paper& paper, const PaperResult& result);

/// The folders in `below` that have a paper.yaml, sorted: the one called `name`, or all if "".
/// Throws InputError if there is none.
std::vector<std::string> paper_folders(const std::string& below, const std::string& name);

/// The lines that only one of the committed results.csv and `result` has, with - and + in front;
/// "" if there are none. The order of the lines does not matter.
std::string difference_from_committed(const Paper& paper, const PaperResult& result);

}  // namespace baechi
