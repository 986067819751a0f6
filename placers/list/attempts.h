/// Repeated list scheduling with ever larger memory margins, until the result fits.
#pragma once
#include <string_view>

#include "placers/list/schedule.h"
#include "sim/options.h"

namespace baechi::list {

struct PlaceOptions {
  Variant variant = Variant::standard;
  /// Favourite child of each op, or no_op; empty: none (m-ETF).
  IdVector<OpId, OpId> favourite{};
  /// Keep memory free on its device for the most demanding member of a group until all have
  /// started.
  bool reserve = false;
};

/// Reads the options `variant` and `reserve`.
PlaceOptions read_place_options(Options& options);

/// A placement by schedule() whose simulated step (problem.engine) does not run out of memory. The
/// step is not simulated if every device has memory for all ops together.
///
/// The first attempt has no margin. If it gets stuck, or its simulation runs out of memory, the
/// same algorithm plans with less memory: with some kept free for the members of groups that come
/// late, with a fraction of each device's memory, and as if nothing were ever freed. `detail` then
/// names the attempt and the reason. The PyTorch variant makes only the last of these attempts.
/// Facts: `attempts`, `planned_step_us`. Throws InfeasibleError, prefixed by `name`, with the
/// reason of the first failure.
Placement place(const Problem& problem, const PlaceOptions& options, std::string_view name);

}  // namespace baechi::list
