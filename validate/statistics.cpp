#include "validate/statistics.h"

#include "sim/error.h"
#include "sim/random.h"

namespace baechi::validate {
namespace {

/// Weighted least squares; `through_origin`: no fixed part.
Line weighted_line(std::span<const double> x, std::span<const double> y,
                   std::span<const double> weight, bool through_origin) {
  double w = 0.0, wx = 0.0, wy = 0.0, wxx = 0.0, wxy = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    w += weight[i];
    wx += weight[i] * x[i];
    wy += weight[i] * y[i];
    wxx += weight[i] * x[i] * x[i];
    wxy += weight[i] * x[i] * y[i];
  }
  if (through_origin) return {.fixed = 0.0, .slope = wxx > 0.0 ? wxy / wxx : 0.0};
  const double slope = (w * wxy - wx * wy) / (w * wxx - wx * wx);
  return {.fixed = (wy - slope * wx) / w, .slope = slope};
}

Samples ranks(std::span<const double> values) {
  Samples ranks(values.size());
  for (std::size_t i = 0; i < values.size(); ++i)
    for (const double other : values)
      ranks[i] += other < values[i] ? 1.0 : other == values[i] ? 0.5 : 0.0;
  return ranks;
}

constexpr double largest_left_out = 0.25;

Fit estimate_value(std::string what, const Estimate& e) {
  return {.what = std::move(what),
          .value = fmt::format("{:.0f} ns ({:.0f} to {:.0f})", e.value, e.low, e.high),
          .error = {},
          .wrong = e.high < 0.0 ? "below 0: no time is" : ""};
}

Fit line_or_table(std::string what, const FittedTime& time) {
  const bool table = !time.table.empty();
  Fit fit{.what = std::move(what),
          .value = fmt::format("{} of {:.0f} to {:.0f}", table ? "table" : "line", time.least,
                               time.most),
          .error = fmt::format("worst residual of a line {:.1f} %", 100.0 * time.worst_residual),
          .wrong = {}};
  const auto clamped =
      std::ranges::find_if(time.table, [](const auto& entry) { return entry.second <= 1.0; });
  if (clamped != time.table.end())
    fit.wrong = fmt::format("{:.0f} ns for {:.0f}", clamped->second, clamped->first);
  else if (!table && time.ns_per_unit.value <= 0.0)
    fit.wrong = "the line does not rise";
  return fit;
}

}  // namespace

Line relative_line(std::span<const double> x, std::span<const double> y) {
  BAECHI_CHECK(x.size() == y.size(), "{} and {} values", x.size(), y.size());
  const bool one_x = std::ranges::all_of(x, [&](double v) { return v == x.front(); });
  Samples weight(x.size());
  for (std::size_t i = 0; i < y.size(); ++i) weight[i] = 1.0 / (y[i] * y[i]);
  Line line = weighted_line(x, y, weight, one_x);
  for (int round = 0; round < 20; ++round) {
    Samples residual(x.size());
    for (std::size_t i = 0; i < x.size(); ++i) residual[i] = std::abs(line(x[i]) - y[i]) / y[i];
    const double spread = 2.0 * 1.4826 * median(residual);  // 1.4826: of a normal distribution
    if (spread <= 0.0) break;
    for (std::size_t i = 0; i < x.size(); ++i)
      weight[i] = std::min(1.0, spread / std::max(residual[i], 1e-12)) / (y[i] * y[i]);
    line = weighted_line(x, y, weight, one_x);
  }
  return line;
}

Estimate bootstrap(const std::vector<Samples>& groups,
                   const std::function<double(const std::vector<Samples>&)>& statistic,
                   int rounds) {
  Random random(1);
  Samples found;
  std::vector<Samples> again = groups;
  for (int r = 0; r < rounds; ++r) {
    for (std::size_t g = 0; g < groups.size(); ++g)
      for (double& value : again[g])
        value = groups[g][random.below(static_cast<std::uint32_t>(groups[g].size()))];
    found.push_back(statistic(again));
  }
  return {
      .value = statistic(groups), .low = quantile(found, 0.025), .high = quantile(found, 0.975)};
}

Estimate bootstrap(const Samples& samples, const std::function<double(Samples)>& statistic,
                   int rounds) {
  return bootstrap(
      std::vector<Samples>{samples},
      [&](const std::vector<Samples>& groups) { return statistic(groups.front()); }, rounds);
}

double spearman(std::span<const double> a, std::span<const double> b) {
  const Samples x = ranks(a), y = ranks(b);
  const double mean = static_cast<double>(x.size()) / 2.0;
  double xy = 0.0, xx = 0.0, yy = 0.0;
  for (std::size_t i = 0; i < x.size(); ++i) {
    xy += (x[i] - mean) * (y[i] - mean);
    xx += (x[i] - mean) * (x[i] - mean);
    yy += (y[i] - mean) * (y[i] - mean);
  }
  if (xx <= 0.0 || yy <= 0.0) return std::numeric_limits<double>::quiet_NaN();
  return xy / std::sqrt(xx * yy);
}

std::vector<Fit> fits_of(const Calibration& calibration) {
  std::vector<Fit> fits;
  for (const auto& mode : calibration.modes) {
    fits.push_back(estimate_value(mode.mode + ": gap in a queue", mode.same_ns));
    fits.push_back(estimate_value(mode.mode + ": gap between queues", mode.cross_ns));
    for (const auto& after : mode.after)
      fits.push_back(
          estimate_value(fmt::format("{}: gap behind {}", mode.mode, after.kind), after.same_ns));
  }
  for (const auto& t : calibration.transfers) {
    const std::string name =
        fmt::format("{} {}{}{}", t.mode, t.way, t.direction.empty() ? "" : " ", t.direction);
    fits.push_back(estimate_value(name + ": latency", t.latency_ns));
    fits.push_back(estimate_value(name + ": occupancy", t.occupancy_ns));
    if (t.time.most > 0.0) fits.push_back(line_or_table(name + ": bytes", t.time));
  }
  for (const auto& op : calibration.ops) {
    Fit fit = line_or_table(op.mode.empty() ? op.kind : op.mode + " " + op.kind, op.time);
    fit.error += fmt::format(", a size left out {:.1f} %", 100.0 * op.left_out_error);
    if (fit.wrong.empty() && op.left_out_error > largest_left_out)
      fit.wrong = "its sizes do not tell each other";
    fits.push_back(std::move(fit));
  }
  return fits;
}

}  // namespace baechi::validate
