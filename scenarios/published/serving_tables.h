/// A paper's figures of an inference server: the best configuration by its measured latencies.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace baechi {

/// A row's server: `baechi study configure FILE --where ... --threads N --interference F`.
struct ServingRow {
  std::string file;
  std::map<std::string, std::string> where;  ///< column -> word; names one profile
  std::int64_t threads = 1;
  double interference = 1.0;
};

/// The figure that is asked for, at one batch; of several batches the mean.
enum class ServingFigure : std::uint8_t { one_instance, best, speed_up, instances };

/// Latencies in seconds. Nothing if a configuration is not possible. Throws InputError if the file
/// is wrong, or does not have exactly one such profile.
std::optional<double> serving_figure(const ServingRow& row, ServingFigure figure,
                                     const std::vector<std::int64_t>& batches);

}  // namespace baechi
