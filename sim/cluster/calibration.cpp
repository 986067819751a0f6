#include "sim/cluster/calibration.h"

#include <cmath>
#include <map>

#include "sim/error.h"

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

namespace {

Duration from_ns(double ns) { return Duration{saturated(std::round(std::max(ns, 0.0)))}; }

std::int64_t multiple(double value, std::int64_t of, std::int64_t most) {
  const double n = std::round(value / static_cast<double>(of)) * static_cast<double>(of);
  return static_cast<std::int64_t>(
      std::clamp(n, static_cast<double>(of), static_cast<double>(most)));
}

constexpr std::int64_t largest_gemm = 16384, most_bytes = std::int64_t{1} << 36;

StandIn gemm(std::string_view kind, double flops) {
  const std::int64_t n = multiple(std::cbrt(flops / 2.0), 16, largest_gemm);
  const auto side = static_cast<double>(n);
  return {.kind = kind, .argument = n, .amount = 2.0 * side * side * side};
}

StandIn elementwise(double bytes) {
  const std::int64_t rounded_bytes = multiple(bytes, 32, most_bytes);
  return {.kind = "ew", .argument = rounded_bytes, .amount = static_cast<double>(rounded_bytes)};
}

}  // namespace

StandIn stand_in(OpWork work) {
  constexpr double flops_per_byte = 989e12 / 3.35e12;
  if (work.none()) return {};
  const auto flops = static_cast<double>(work.flops);
  const auto bytes = static_cast<double>(work.traffic.count);
  return flops > flops_per_byte * bytes ? gemm("gemm", flops) : elementwise(bytes);
}

StandIn stand_in(OpWork work, const Calibration& calibration) {
  const std::string_view kind = calibration.find_op("cublas") != nullptr ? "cublas" : "gemm";
  const auto* gemm_time = calibration.find_op(kind);
  const auto* ew_time = calibration.find_op("ew");
  if (work.none() || gemm_time == nullptr || ew_time == nullptr) return stand_in(work);
  if (work.flops == 0) return elementwise(static_cast<double>(work.traffic.count));
  if (work.traffic == Bytes{}) return gemm(kind, static_cast<double>(work.flops));
  const StandIn by_flops = gemm(kind, static_cast<double>(work.flops));
  const StandIn by_bytes = elementwise(static_cast<double>(work.traffic.count));
  return gemm_time->time(by_flops.amount) >= ew_time->time(by_bytes.amount) ? by_flops : by_bytes;
}

CalibratedCosts::CalibratedCosts(std::unique_ptr<CostModel> plain, const OpGraph& graph,
                                 std::shared_ptr<const Calibration> calibration,
                                 const CalibrationUse& use)
    : plain_(std::move(plain)),
      graph_(graph),
      calibration_(std::move(calibration)),
      effects_(use.effects),
      mode_(calibration_->find_mode(use.mode)) {
  if (mode_ == nullptr)
    throw InputError(
        fmt::format("the calibration of '{}' has nothing of mode {}", calibration_->gpu, use.mode));
  const std::vector<std::string> directions =
      use.way == "host" ? std::vector<std::string>{"d2h", "h2d"} : std::vector<std::string>{""};
  for (const std::string& direction : directions) {
    hops_.push_back(calibration_->find_transfer(use.mode, use.way, direction));
    if (hops_.back() == nullptr)
      throw InputError(fmt::format("the calibration of '{}' has no transfers of way {} in mode {}",
                                   calibration_->gpu, use.way, use.mode));
  }
}

const FittedTime* CalibratedCosts::time_of(OpId op, StandIn& work) const {
  if (!effects_.costs) return nullptr;
  work = stand_in(graph_.work(op), *calibration_);
  const auto* known = calibration_->find_op(work.kind, mode_->mode);
  return known == nullptr ? nullptr : &known->time;
}

Duration CalibratedCosts::compute(OpId op, DeviceId device) const {
  Duration time = plain_->compute(op, device);
  if (time >= cannot_run) return time;
  StandIn work;
  if (const FittedTime* known = time_of(op, work)) time = from_ns((*known)(work.amount));
  return effects_.op_gap ? saturated_sum(time, from_ns(mode_->same_ns.value)) : time;
}

double CalibratedCosts::moving(TensorId tensor) const {
  double ns = 0.0;
  for (const auto* hop : hops_)
    ns += hop->time(static_cast<double>(graph_.tensor(tensor).size.count));
  return ns;
}

Duration CalibratedCosts::transfer(TensorId tensor, DeviceId src, DeviceId dst) const {
  Duration time = plain_->transfer(tensor, src, dst);
  if (effects_.costs) {
    const Duration moved = from_ns(moving(tensor));
    time = hops_.front()->paced ? std::max(time, moved)
                                : saturated_sum(moved, plain_->latency(tensor, src, dst));
  }
  const Duration added = latency(tensor, src, dst) - plain_->latency(tensor, src, dst);
  return saturated_sum(time, added);
}

Duration CalibratedCosts::latency(TensorId tensor, DeviceId src, DeviceId dst) const {
  Duration time = plain_->latency(tensor, src, dst);
  if (!effects_.latency) return time;
  for (const auto* hop : hops_) time = saturated_sum(time, from_ns(hop->latency_ns.value));
  return time;
}

std::string CalibratedCosts::outside() const {
  if (!effects_.costs) return "";
  struct Range {
    std::size_t outside = 0;
    const FittedTime* known = nullptr;
  };
  std::map<std::string_view, Range> ranges;
  const auto note = [&](std::string_view what, const FittedTime& known, double amount) {
    if (known.covers(amount)) return;
    Range& r = ranges[what];
    ++r.outside;
    r.known = &known;
  };
  for (const OpId v : graph_.ops()) {
    StandIn work;
    if (const FittedTime* known = time_of(v, work)) note(work.kind, *known, work.amount);
  }
  for (const TensorId t : graph_.tensors()) {
    const Tensor& tensor = graph_.tensor(t);
    if (!tensor.control && !hops_.front()->paced)
      note("transfers", hops_.front()->time, static_cast<double>(tensor.size.count));
  }
  std::string text;
  for (const auto& [what, r] : ranges)
    text += fmt::format("{} of its {} are outside of what was calibrated ({:.3g} to {:.3g})\n",
                        r.outside, what, r.known->least, r.known->most);
  return text;
}

}  // namespace baechi
