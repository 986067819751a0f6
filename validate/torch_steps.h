/// Steps of PyTorch in several processes beside their predictions: what `./dev torch OUT` left.
#pragma once
#include <vector>

#include "sim/units.h"

namespace baechi::validate {

/// A step that was predicted and measured; times in us.
struct TorchCase {
  std::string model, way, cut;
  double predicted = 0.0, measured = 0.0;
  double noise = 0.0;  ///< how far its rounds lie apart, of the middle one
  bool counts = false;
  double recorded_noise = 0.0;  ///< how far the middle half of the recorded steps lies apart
  /// How much longer the recorded step of one process takes in the minutes of measuring; a share.
  double drift = 0.0;
  double no_transfers = 0.0;      ///< what a model without transfers and without rules says
  double baechi = 0.0;            ///< what a link alone says, as Baechi has it
  std::vector<double> without{};  ///< [TorchScore::effects] what is predicted without this effect

  double error() const { return predicted / measured - 1.0; }
  /// The error of the prediction for a machine that is as fast as while it was measured.
  double steady_error() const { return predicted * (1.0 + drift) / measured - 1.0; }
};

/// The most memory of one process in a step; bytes.
struct TorchPeak {
  std::string model, way, cut;
  std::int64_t rank = 0;
  double predicted = 0.0, measured = 0.0;

  double error() const { return predicted / measured - 1.0; }
};

/// Absolute errors, as shares.
struct TorchErrors {
  double median = 0.0, worst = 0.0;
};

/// An effect that predictions know, over the cases that count and that it moves.
struct TorchEffect {
  std::string name{};  ///< "sends_after_passes"
  std::size_t cases = 0;
  TorchErrors with{}, without{};
};

/// A peak is told well if it is off by no more.
inline constexpr double most_error_of_peak = 0.03;

/// Errors of the cases that count, and of all peaks.
struct TorchScore {
  std::vector<TorchCase> cases{};
  std::vector<TorchPeak> peaks{};
  std::vector<TorchEffect> effects{};
  std::size_t counting = 0;
  TorchErrors errors{}, steady{}, no_transfers{}, baechi{}, of_peaks{};
  double peaks_told_well = 0.0;  ///< share of the peaks that are off by most_error_of_peak at most
  double noise = 0.0, recorded_noise = 0.0,
         drift = 0.0;  ///< medians; of the drift without its sign
  /// Over models: how much slower the way and cut predicted best is than the best measured one.
  double regret = 0.0, worst_regret = 0.0;  ///< mean; the largest
  double order = 0.0;  ///< Spearman's correlation of predicted and measured, mean over models
};

/// Reads OUT/score.csv, whose columns without_EFFECT_us are effects, and OUT/peaks.csv, if that is
/// there. Steps need not be timed where there are peaks. Throws InputError with the place of what
/// it cannot read, or if steps were timed and no case counts.
TorchScore score_torch(const std::string& folder);

}  // namespace baechi::validate
