/// Predicted steps set against measured ones.
#pragma once
#include <cmath>

#include "validate/export.h"
#include "validate/run_files.h"
#include "validate/statistics.h"

namespace baechi::validate {

struct Floor {
  std::string between;  ///< "visits", "cards", or "runs" where machine.txt does not say which card
  std::string path;     ///< of the other run
  std::size_t plans = 0;
  double median = 0.0, p95 = 0.0;  ///< of |median step there / median step here - 1|
};

/// Over the plans of both runs with equal hashes, in modes that both replayed. A mode without such
/// a plan has plans == 0. Cards differ in the key 'card' of machine.txt.
Floor floor_between(const ValidationRun& here, const ValidationRun& there);

/// A plan in one mode. Times in ns.
struct PlanScore {
  std::string plan{}, group{}, mode{};  ///< group: the plan's name up to its first '/'
  Layer layer = Layer::queues;
  double predicted = 0.0;
  /// If the lengths of ops and links are given to both sides: the step of these lengths alone.
  std::optional<double> given{};
  std::size_t replays = 0, failed = 0;  ///< failed: neither ok nor out of memory
  std::uint64_t content = 0;            ///< a hash of the plan but for its name
  Estimate measured{};                  ///< median of the replays that were ok; 0 of none
  double p5 = 0.0, p95 = 0.0;
  /// Median over tasks and kept replays of how far starts are off, over the measured step.
  std::optional<double> start_error{};
  std::optional<double> repeat{};     ///< |second round's median / first round's - 1|
  std::optional<Bytes> peak_error{};  ///< largest |predicted - measured| over devices

  bool has_time() const { return measured.value > 0.0; }
  double error() const { return predicted / measured.value - 1.0; }  ///< if has_time()
  /// The error of the part that was not given: |predicted - measured| / (measured - given); nothing
  /// if all was given.
  std::optional<double> error_of_rest() const {
    if (!given || !has_time() || measured.value <= *given) return std::nullopt;
    return std::abs(predicted - measured.value) / (measured.value - *given);
  }
};

/// How far predicted step times are off. Errors are relative.
struct Accuracy {
  std::size_t plans = 0;
  double median = 0.0, p95 = 0.0;  ///< of absolute errors
  double bias = 0.0;               ///< median of signed errors
  /// 95 % intervals of the median and of the bias: graphs, then placements are resampled.
  Estimate median_interval{}, bias_interval{};
};

/// Plans of one graph that are predicted to take equally long.
struct Tie {
  std::vector<std::string> plans{};
  bool same_plan = false;  ///< one placement several times; else different ones
};

/// The placements of one graph in one mode, ranked. Plans of one placement count once, by the plan
/// whose measured step is their median: noise between equal plans is no order of placements.
struct Ranking {
  std::string group{}, mode{};
  std::size_t plans = 0;
  std::size_t placements = 0;
  std::size_t steps = 0;  ///< distinct predicted steps; fewer than placements where some tie
  std::vector<Tie> ties{};
  double spread = 0.0;               ///< of measured medians: (90 % - 10 % quantile) / median
  std::optional<double> spearman{};  ///< nothing if one side is constant
  std::size_t pairs = 0;             ///< pairs whose measured intervals do not overlap
  std::optional<double> kendall{};   ///< over those pairs
  double regret = 0.0;  ///< measured step of the placement predicted best over the best, - 1
};

/// Another model on the same data.
struct Rival {
  std::string name, what;
  Accuracy accuracy;
};

struct MemoryScore {
  std::size_t peaks = 0;
  Bytes worst_peak_error{};
};

struct Validation {
  Machine machine{};
  Calibration calibration{};
  std::vector<PlanScore> plans{};
  std::vector<std::pair<Layer, Accuracy>> layers{};  ///< those with any plan
  std::vector<Ranking> rankings{};
  std::vector<Floor> floors{};  ///< to other runs; compare() leaves it empty
  std::vector<Rival> rivals{};  ///< ours first, then baselines, then ours without each effect
  MemoryScore memory{};
  std::optional<double> start_error{};  ///< median of the plans'
  /// Where lengths are given: medians of their share of the measured step, and of error_of_rest().
  std::optional<double> given_share{}, error_of_rest{};
  std::optional<double> canary_spread{};       ///< (95 % - 5 % quantile) / median of its times
  double noise_median = 0.0, noise_p95 = 0.0;  ///< of PlanScore::repeat: claims end there
  std::size_t repeats = 0;
  std::size_t not_replayed = 0;  ///< plans without any replay
  std::size_t failed = 0, replays = 0;
  std::size_t frozen = 0, frozen_equal = 0;  ///< predictions beside plans; equal to ours
};

/// Predicts every replayed plan anew, with `calibration`, and compares. Throws InputError if there
/// is no machine.txt, nothing was replayed, or the calibration lacks an entry that a plan needs.
Validation compare(const ValidationRun& run, const Calibration& calibration);

/// 1 - our median error over the median error of another model. 0: our further knowledge is worth
/// nothing; 1: no error is left. Nothing if there is no such model or it has no error.
std::optional<double> skill(const Validation& validation, std::string_view rival);

Accuracy accuracy(const std::vector<PlanScore>& plans);
std::vector<Ranking> rankings(const std::vector<PlanScore>& plans);

/// Baechi's procedure (SoCC'20, section 4.1) on these measurements: ops as profiled, transfers by
/// ordinary least squares of time on bytes, nothing else. A paced link's length is stated; its
/// latency is then the intercept of the time beyond this length. A transfer that was not measured
/// stays.
Calibration as_baechi(Calibration ours, const std::vector<Measurement>& rows);

/// A roofline by the datasheet: flops at the dense half-precision peak times the partition's part
/// of the multiprocessors, bytes at the whole memory's speed. Transfers take their stated time, or
/// as little as measured. Nothing for a GPU whose datasheet is not known: H100 (SXM), H200, A100
/// (80 GB) are known.
std::optional<Calibration> as_datasheet(Calibration ours);

/// Accuracy targets of this project (validate/README.md).
struct Target {
  std::string what;
  double wanted = 0.0;
  std::optional<double> found{};  ///< nothing: not measured
  bool at_least = false;          ///< else at most
  bool met() const { return found && (at_least ? *found >= wanted : *found <= wanted); }
};
std::vector<Target> targets(const Validation& validation);

std::string to_text(const Validation& validation);  ///< tables for a terminal
/// layer,median_percent,p95_percent: the bounds of a recorded run's accuracy.
std::string accuracy_csv(const Validation& validation);
std::string scores_csv(const Validation& validation);  ///< a line per plan
std::string to_html(const Validation& validation);     ///< a page that needs nothing else

}  // namespace baechi::validate
