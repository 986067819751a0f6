#include "sim/cluster/calibration.h"

#include <algorithm>
#include <cmath>

namespace baechi {

double FittedTime::operator()(double amount) const {
  if (table.empty()) return fixed_ns.value + ns_per_unit.value * amount;
  if (amount <= 0.0) return table.front().second;
  const auto above = std::ranges::upper_bound(table, amount, {}, &std::pair<double, double>::first);
  if (above == table.begin()) return table.front().second;  // latency-bound
  if (above == table.end()) return table.back().second * (amount / table.back().first);
  const auto below = above - 1;
  const double part = std::log(amount / below->first) / std::log(above->first / below->first);
  return below->second * std::pow(above->second / below->second, part);
}

const Calibration::Mode* Calibration::find_mode(std::string_view mode) const {
  const auto it = std::ranges::find(modes, mode, &Mode::mode);
  return it == modes.end() ? nullptr : &*it;
}

const Calibration::Transfer* Calibration::find_transfer(std::string_view mode, std::string_view way,
                                                        std::string_view direction) const {
  const auto it = std::ranges::find_if(transfers, [&](const Transfer& t) {
    return t.mode == mode && t.way == way && t.direction == direction;
  });
  return it == transfers.end() ? nullptr : &*it;
}

const Calibration::OpTime* Calibration::find_op(std::string_view kind,
                                                std::string_view mode) const {
  auto it = std::ranges::find_if(
      ops, [&](const OpTime& op) { return op.kind == kind && op.mode == mode; });
  if (it == ops.end()) it = std::ranges::find(ops, kind, &OpTime::kind);
  return it == ops.end() ? nullptr : &*it;
}

Effects Effects::bare() {
  Effects e;
  for (const EffectName& effect : effect_names()) e.*(effect.on) = effect.on == &Effects::costs;
  return e;
}

const std::vector<EffectName>& effect_names() {
  static const std::vector<EffectName> names{
      {"op_gap", "gap between ops of one queue", &Effects::op_gap},
      {"cross_gap", "gap across queues", &Effects::cross_gap},
      {"latency", "latency of transfers", &Effects::latency},
      {"occupancy", "how long a transfer holds its queue; off: its whole latency",
       &Effects::occupancy},
      {"sharing", "channels shared by all devices", &Effects::sharing},
      {"interference", "ops slowed by their neighbours", &Effects::interference},
      {"costs", "op and transfer times as measured, not as in the plan", &Effects::costs},
  };
  return names;
}

}  // namespace baechi
