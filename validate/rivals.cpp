#include "validate/rivals.h"

#include <algorithm>
#include <cmath>
#include <string_view>

#include "validate/plan/fields.h"

namespace baechi::validate {
namespace {

/// Without what only a calibration of ours knows.
Calibration without_overheads(Calibration c) {
  for (auto& mode : c.modes) mode = {.mode = mode.mode};
  c.interference.clear();
  c.bandwidth = {};
  return c;
}

struct Squares {
  double intercept = 0.0, slope = 0.0;
};

/// Ordinary least squares; of one size the mean.
Squares least_squares(const std::vector<std::pair<double, double>>& points) {
  const auto n = static_cast<double>(points.size());
  double x = 0.0, y = 0.0, xx = 0.0, xy = 0.0;
  for (const auto& [px, py] : points) {
    x += px / n;
    y += py / n;
  }
  for (const auto& [px, py] : points) {
    xx += (px - x) * (px - x);
    xy += (px - x) * (py - y);
  }
  const double slope = xx > 0.0 ? xy / xx : 0.0;
  return {y - slope * x, slope};
}

struct Datasheet {
  std::string_view name;
  double flops_per_ns, bytes_per_ns;
};
constexpr Datasheet datasheets[]{
    {"H200", 989e3, 4800.0}, {"H100", 989e3, 3350.0}, {"A100", 312e3, 2039.0}};

}  // namespace

Calibration as_baechi(Calibration ours, const std::vector<Measurement>& rows) {
  ours = without_overheads(std::move(ours));
  for (auto& t : ours.transfers) {
    std::vector<std::pair<double, double>> points;  // bytes, ns
    for (const Measurement& m : rows) {
      if (m.what != "copy" || m.count != 1 || m.mode != t.mode || m.way != t.way ||
          m.subject != t.direction)
        continue;
      const auto fields = split(m.args, ' ');
      const auto bytes = parse_number<std::int64_t>(fields.front().text);
      const auto told = fields.size() > 1 ? parse_number<std::int64_t>(fields[1].text)
                                          : std::optional<std::int64_t>{0};
      if (!bytes || !told || (t.paced && *told == 0)) continue;
      points.emplace_back(static_cast<double>(*bytes), m.value - static_cast<double>(*told));
    }
    if (points.empty()) continue;
    const Squares fit = least_squares(points);
    t.latency_ns = t.occupancy_ns = exactly(std::max(fit.intercept, 0.0));
    t.shared = false;
    if (!t.paced) t.time = {.ns_per_unit = exactly(std::max(fit.slope, 0.0))};
  }
  return ours;
}

std::optional<Calibration> as_datasheet(Calibration ours) {
  const auto* const known = std::ranges::find_if(
      datasheets, [&](const Datasheet& d) { return ours.gpu.find(d.name) != std::string::npos; });
  if (known == std::end(datasheets) || ours.sms == 0 || ours.partitions.empty())
    return std::nullopt;
  const double share =
      static_cast<double>(ours.partitions.front().compute) / static_cast<double>(ours.sms);
  ours = without_overheads(std::move(ours));
  for (auto& t : ours.transfers) t.latency_ns = t.occupancy_ns = t.channel_ns = {};
  for (auto& op : ours.ops) {
    if (op.kind == "spin") continue;
    const double per_ns = op.kind == "ew" ? known->bytes_per_ns : share * known->flops_per_ns;
    op.time = {.ns_per_unit = exactly(1.0 / per_ns)};
  }
  return ours;
}

}  // namespace baechi::validate
