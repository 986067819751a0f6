/// The measured latencies of an inference server, as `baechi study configure` reads them.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "scenarios/studies/serving/packrat.h"

namespace baechi::serving {

inline constexpr std::int64_t most_threads = 1024, most_batch = 65'536;

/// The latencies of one model, engine and so on: of equal words in all other columns.
struct LatencyProfile {
  std::vector<std::pair<std::string, std::string>> of;  ///< column and word
  LatencyTable latency;
};

/// A CSV with columns threads, batch and mean_ms; other columns tell profiles apart, which come in
/// the order of their words. `path` begins messages. Throws InputError with up to 20 mistakes, each
/// with its line and column.
std::vector<LatencyProfile> read_latency_profiles(std::string_view text, const std::string& path);

/// The cells of a line, or the words of a list: the texts between commas.
std::vector<std::string> comma_separated(std::string_view line);

}  // namespace baechi::serving
