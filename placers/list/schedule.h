/// Earliest-task-first list scheduling under memory limits: the algorithm of m-ETF and m-SCT.
#pragma once

#include "placers/interface/placer.h"
#include "placers/list/booked_memory.h"

namespace baechi::list {

struct Schedule {
  std::optional<Placement> placement;  ///< nothing: some op fits on no device
  std::string stuck{};        ///< in that case: which op needs how much memory, and what is left
  bool memory_ample = false;  ///< every device has memory for all ops together
};

/// Schedules `problem` by earliest task first; the order of starts gives the priorities.
///
/// At each time, of the ready ops (all inputs computed) that some idle device could start at once,
/// given their transfers, starts the one with the lowest id on the device where it ends first;
/// ties: the device with the lowest id. If there is none, goes to the next time at which there may
/// be one. Inputs are sent when the op is scheduled, in the order they were produced, each from the
/// later of its production and the last booking of the channels it needs (the channels of
/// problem.engine.transfers). The estimate books on a copy of the channels' clocks, so it equals
/// the final booking.
///
/// Computing and transfers overlap in the schedule, even if problem.engine.overlap is off.
///
/// Memory is booked as in booked_memory.h, with `margin`. An op that does not fit waits for memory
/// to be freed.
///
/// `favourite` (m-SCT) has the favourite child of each op, or no_op: a device may wait for the
/// favourite child of its last op (favourites.h). Without favourites (m-ETF) it is empty.
///
/// The PyTorch variant schedules any number of transfers at once, regardless of
/// problem.engine.transfers; and of the ops that could start it takes the one that became ready
/// first, instead of the one with the lowest id.
/// Source: Baechi (SoCC'20), sections 2 and 3; ETF: Hwang et al., SIAM J. Comput. 1989. Deviations
/// from the published code are listed in placers/README.md.
Schedule schedule(const Problem& problem, const IdVector<OpId, OpId>& favourite, Variant variant,
                  MemoryMargin margin);

struct PlaceOptions {
  Variant variant = Variant::standard;
  /// Favourite child of each op, or no_op; empty: none (m-ETF).
  IdVector<OpId, OpId> favourite{};
  /// Keep memory free on its device for the most demanding member of a group until all have
  /// started.
  bool reserve = false;
};

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
