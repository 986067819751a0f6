/// Robust figures of a sample. The samples are copied: callers keep their order.
#pragma once
#include <vector>

namespace replay {

/// By linear interpolation between order statistics (R's type 7). NaN if there is no sample.
double quantile(std::vector<double> samples, double q);

double median(const std::vector<double>& samples);

/// Mean of the middle 80 %: unlike a median it is not confined to the ticks of a coarse clock.
double trimmed_mean(std::vector<double> samples);

}  // namespace replay
