#include "validate/bandwidth_fit.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "validate/plan/fields.h"
#include "validate/plan/plan.h"
#include "validate/statistics.h"

namespace baechi::validate {
namespace {

constexpr double slowed_from = 1.03;  // times as long as alone
constexpr std::string_view memory_pass = "ew";

/// The median of some rows of one subject beside `count` ops of a kind.
struct Beside {
  std::string subject, against;
  double count = 0.0;
  double demand = 0.0;    // of the subject alone, if it is a pass over memory; bytes per ns
  double slowdown = 1.0;  // against the subject alone
};

std::vector<Beside> measured_points(const std::vector<Measurement>& rows) {
  std::map<std::pair<std::string, std::string>, Samples> alone;
  std::map<std::tuple<std::string, std::string, std::string, std::int64_t>, Samples> together;
  for (const Measurement& m : rows) {
    if (m.what == "op") alone[{m.subject, m.args}].push_back(m.value);
    if (m.what == "interference")
      together[{m.subject, m.args, m.against, m.count}].push_back(m.value);
  }
  std::vector<Beside> all;
  for (const auto& [key, samples] : together) {
    const auto& [subject, args, against, count] = key;
    const auto base = alone.find({subject, args});
    if (base == alone.end()) continue;
    const double ns = median(base->second);
    const auto bytes = parse_number<std::int64_t>(args);
    all.push_back(
        {.subject = subject,
         .against = against,
         .count = static_cast<double>(count),
         .demand = subject == memory_pass && bytes ? static_cast<double>(*bytes) / ns : 0.0,
         .slowdown = median(samples) / ns});
  }
  return all;
}

/// Bytes per ns of the quickest pass over memory: neighbours run such, or larger ones.
double rate_of_pass(const std::vector<Beside>& all) {
  double rate = 0.0;
  for (const Beside& b : all) rate = std::max(rate, b.demand);
  return rate;
}

struct DemandFit {
  Calibration::Bandwidth bandwidth;
  double pass_rate = 0.0;

  const Calibration::Bandwidth::Demand* find(const std::string& kind) const {
    const auto found =
        std::ranges::find(bandwidth.demands, kind, &Calibration::Bandwidth::Demand::kind);
    return found == bandwidth.demands.end() ? nullptr : &*found;
  }
  double demand_of(const std::string& kind) const {
    const auto* found = find(kind);
    return kind == memory_pass ? pass_rate : found == nullptr ? 0.0 : found->bytes_per_ns;
  }
  double pressure(const Beside& b) const {
    const double own = b.subject == memory_pass ? b.demand : demand_of(b.subject);
    return std::max(1.0, (own + b.count * demand_of(b.against)) / bandwidth.capacity) - 1.0;
  }
  double slowdown(const Beside& b) const {
    const auto* found = find(b.subject);
    return 1.0 + (found == nullptr ? 0.0 : found->sensitivity) * pressure(b);
  }
};

double slowdown_by_pairs(const Beside& b, const Calibration& known) {
  for (const auto& pair : known.interference)
    if (pair.op == b.subject && pair.neighbour == b.against)
      return 1.0 + b.count * std::max(pair.per_neighbour.value, 0.0);
  return 1.0;
}

}  // namespace

Calibration::Bandwidth fit_bandwidth(const std::vector<Measurement>& rows,
                                     const Calibration& known) {
  const std::vector<Beside> all = measured_points(rows);
  std::set<double> counts;
  for (const Beside& b : all) counts.insert(b.count);
  DemandFit fit{.bandwidth = {}, .pass_rate = rate_of_pass(all)};
  if (counts.size() < 2 || fit.pass_rate <= 0.0) return {};

  Samples capacities;
  for (const Beside& b : all)
    if (b.subject == memory_pass && b.against == memory_pass && b.slowdown > slowed_from)
      capacities.push_back((b.demand + b.count * fit.pass_rate) / b.slowdown);
  if (capacities.empty()) return {};
  fit.bandwidth.capacity = median(capacities);

  std::map<std::string, Samples> demands, sensitivities;
  for (const Beside& b : all) {
    demands[b.subject];
    if (b.subject == memory_pass && b.against != memory_pass && b.slowdown > slowed_from)
      demands[b.against].push_back(
          std::max((b.slowdown * fit.bandwidth.capacity - b.demand) / b.count, 0.0));
  }
  for (const auto& [kind, samples] : demands)
    fit.bandwidth.demands.push_back({.kind = kind,
                                     .bytes_per_ns = kind == memory_pass ? fit.pass_rate
                                                     : samples.empty()   ? 0.0
                                                                         : median(samples)});
  for (const Beside& b : all)
    if (const double pressure = fit.pressure(b); pressure > slowed_from - 1.0)
      sensitivities[b.subject].push_back(std::max((b.slowdown - 1.0) / pressure, 0.0));
  for (auto& demand : fit.bandwidth.demands)
    if (const auto found = sensitivities.find(demand.kind); found != sensitivities.end())
      demand.sensitivity = median(found->second);

  double error = 0.0, error_by_pairs = 0.0;
  for (const Beside& b : all) {
    error += std::abs(fit.slowdown(b) - b.slowdown);
    error_by_pairs += std::abs(slowdown_by_pairs(b, known) - b.slowdown);
  }
  return error <= error_by_pairs ? fit.bandwidth : Calibration::Bandwidth{};
}

}  // namespace baechi::validate
