#include "validate/bodies.h"

#include <algorithm>
#include <cmath>

#include "sim/cluster/calibrated_costs.h"

namespace baechi::validate {
namespace {

Body spin(Duration length) {
  return {.kind = BodyKind::spin, .args = {length.count()}};
}

Body body_of_size(BodyKind kind, std::int64_t size) {
  if (kind == BodyKind::cublas) return {.kind = kind, .args = {size, size, size}};
  return {.kind = kind, .args = {size}};
}

Body body_of_stand_in(const StandIn& work, Duration length) {
  const auto kind = parse<BodyKind>(work.kind);
  return kind ? body_of_size(*kind, work.argument) : spin(length);
}

/// The size of `kind` whose time is nearest to `length`, among those that were measured or lie
/// between; a spin if `length` is outside of their times.
Body sized(const Calibration::OpTime& op, BodyKind kind, Duration length) {
  const std::int64_t step = kind == BodyKind::ew ? 32 : 16;
  const double least = kind == BodyKind::ew ? op.time.least : std::cbrt(op.time.least / 2.0);
  const double most = kind == BodyKind::ew ? op.time.most : std::cbrt(op.time.most / 2.0);
  const auto takes = [&](std::int64_t steps) {
    return op.time(body_of_size(kind, steps * step).amount());
  };
  const double wanted = static_cast<double>(length.count());
  std::int64_t low = std::llround(least) / step;  // takes no longer
  std::int64_t high = std::llround(most) / step;
  if (takes(low) > wanted || takes(high) < wanted) return spin(length);
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (takes(middle) <= wanted ? low : high) = middle;
  }
  return body_of_size(kind, (takes(high) - wanted < wanted - takes(low) ? high : low) * step);
}

Body timed(OpWork work, Duration length, const Calibration& calibration, std::size_t turn) {
  std::vector<const Calibration::OpTime*> kinds{nullptr};  // a spin
  const std::string_view of_work = stand_in(work, calibration).kind;
  for (const auto& op : calibration.ops) {
    if (op.kind == "spin" || !parse<BodyKind>(op.kind)) continue;
    if (&op != calibration.find_op(op.kind)) continue;  // of another mode
    if (op.kind == of_work) return sized(op, *parse<BodyKind>(op.kind), length);
    kinds.push_back(&op);
  }
  const auto* op = kinds[turn % kinds.size()];
  return op == nullptr ? spin(length) : sized(*op, *parse<BodyKind>(op->kind), length);
}

}  // namespace

Body body_of(Bodies bodies, OpWork work, Duration length, const Calibration* calibration,
             std::size_t turn) {
  if (bodies == Bodies::spin) return spin(length);
  if (bodies == Bodies::timed) return timed(work, length, *calibration, turn);
  return body_of_stand_in(calibration == nullptr ? stand_in(work) : stand_in(work, *calibration),
                          length);
}

}  // namespace baechi::validate
