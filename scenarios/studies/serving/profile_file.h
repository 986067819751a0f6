/// Reads the measured latencies of an inference server, for `baechi study configure`.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/studies/serving/packrat.h"

namespace baechi::serving {

inline constexpr std::int64_t most_threads = 1024, most_batch = 65'536;

/// The latencies of one model, engine and so on: rows with equal values in all other columns.
struct LatencyProfile {
  std::vector<std::pair<std::string, std::string>> of;  ///< column and value
  LatencyTable latency;
};

/// Reads a CSV with columns threads, batch and mean_ms; other columns distinguish profiles, which
/// are sorted by these values. `path` begins messages. Throws InputError with up to 20 mistakes,
/// each with line and column.
std::vector<LatencyProfile> read_latency_profiles(std::string_view text, const std::string& path);

/// The texts between commas: the cells of a line, or the items of a list.
std::vector<std::string> comma_separated(std::string_view line);

}  // namespace baechi::serving
