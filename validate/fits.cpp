#include "validate/fits.h"

#include <fmt/format.h>

#include <algorithm>

namespace baechi::validate {
namespace {

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
