/// Robust figures of a sample. Samples are copied: callers keep their order.
#pragma once
#include <vector>

namespace baechi::validate {

using Samples = std::vector<double>;

/// Linear interpolation between the order statistics (type 7 of Hyndman and Fan); 0 of no samples.
double quantile(Samples samples, double q);
double median(Samples samples);
/// Mean without the lowest and highest tenth: unbiased under a coarse timer, where a median is not.
/// 0 of no samples.
double trimmed_mean(Samples samples);

}  // namespace baechi::validate
