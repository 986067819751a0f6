#include "validate/outside_sizes.h"

#include <fmt/format.h>

#include <algorithm>

#include "validate/timing.h"

namespace baechi::validate {
namespace {

std::string_view body_unit(BodyKind kind) {
  switch (kind) {
    case BodyKind::spin:
      return "ns";
    case BodyKind::ew:
      return "bytes";
    case BodyKind::gemm:
    case BodyKind::cublas:
      return "flops";
  }
  return "";
}

}  // namespace

void OutsideSizes::add(const std::string& graph, const ReplayPlan& plan,
                       const Calibration& calibration) {
  for (const Task& t : plan.tasks) {
    const FittedTime* known = nullptr;
    std::string what;
    double amount = t.body.amount();
    if (t.transfer) {
      amount = static_cast<double>(t.bytes);
      const auto* transfer = transfer_of(plan, calibration, t);
      if (transfer == nullptr || transfer->paced) continue;
      known = &transfer->time;
      what = fmt::format("transfers by {} in bytes", to_text(plan.way));
    } else {
      const auto* op = calibration.find_op(to_text(t.body.kind), to_text(plan.mode));
      if (op == nullptr) continue;
      known = &op->time;
      what = fmt::format("ops of kind {} in {}", to_text(t.body.kind), body_unit(t.body.kind));
    }
    if (amount == 0.0 || known->covers(amount)) continue;  // of 0 only the launch takes time
    Range& range = ranges_[{graph, what}];
    range.least = range.outside == 0 ? amount : std::min(range.least, amount);
    range.most = std::max(range.most, amount);
    range.known_least = known->least;
    range.known_most = known->most;
    ++range.outside;
  }
}

std::vector<std::string> OutsideSizes::lines() const {
  std::vector<std::string> lines;
  for (const auto& [of, r] : ranges_)
    lines.push_back(fmt::format(
        "{}: over all its plans {} {} ({:.3g} to {:.3g}) are outside of what was calibrated "
        "({:.3g} to {:.3g})",
        of.first, r.outside, of.second, r.least, r.most, r.known_least, r.known_most));
  return lines;
}

}  // namespace baechi::validate
