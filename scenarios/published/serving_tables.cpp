#include "scenarios/published/serving_tables.h"

#include <algorithm>

#include "scenarios/studies/serving/packrat.h"
#include "sim/error.h"
#include "traces/format/compressed_file.h"

namespace baechi {
namespace {

double seconds(Duration time) {
  return to_us(time) / 1e6;
}

serving::LatencyTable latencies_of(const ServingRow& row) {
  auto profiles = serving::read_latency_profiles(read_file(row.file), row.file);
  for (const auto& [column, word] : row.where)
    std::erase_if(profiles, [&](const serving::LatencyProfile& p) {
      return std::ranges::count(p.of, std::pair(column, word)) == 0;
    });
  if (profiles.size() != 1)
    throw InputError(
        fmt::format("{}: {} profiles are as 'where' says, not one", row.file, profiles.size()));
  return std::move(profiles.front().latency);
}

}  // namespace

std::optional<double> serving_figure(const ServingRow& row, ServingFigure figure,
                                     const std::vector<std::int64_t>& batches) {
  const serving::LatencyTable latencies = latencies_of(row);
  double sum = 0.0;
  for (const std::int64_t batch : batches) {
    const auto one = latencies.find({row.threads, batch});
    const auto best = serving::best_serving(latencies, row.threads, batch, row.interference);
    if (!best || one == latencies.end()) return std::nullopt;
    switch (figure) {
      case ServingFigure::one_instance:
        sum += seconds(one->second);
        break;
      case ServingFigure::best:
        sum += seconds(best->latency);
        break;
      case ServingFigure::speed_up:
        sum += seconds(one->second) / seconds(best->latency);
        break;
      case ServingFigure::instances:
        sum += static_cast<double>(best->count());
        break;
    }
  }
  return sum / static_cast<double>(batches.size());
}

}  // namespace baechi
