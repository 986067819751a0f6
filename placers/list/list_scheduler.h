/// Earliest-task-first list scheduling under memory limits: what m_etf and m_sct have in common.
#pragma once
#include <string_view>

#include "placers/variant.h"
#include "sim/problem/problem.h"

namespace baechi {

struct ListSchedulerOptions {
  Variant variant = Variant::standard;
  /// Favourite child of each op, or no_op; empty: none (m-ETF).
  IdVector<OpId, OpId> favourite{};
  /// Keep room on its device for the most demanding member of a group until the last is scheduled.
  bool reserve = false;
  /// Where greedy gets stuck, or the simulation of what it found runs out of memory: try again,
  /// ever more cautiously: with memory kept free for the members of groups that come late, with
  /// less of each device's memory, at last as if nothing were ever freed. The PyTorch variant does
  /// the last alone.
  bool fallback = true;
};

/// A placement by earliest-task-first, its planned order as priorities.
///
/// At each instant, of the ready ops (all inputs computed) that some idle device could start at
/// once, inputs included, the one with the lowest id is started, on the device where it ends first,
/// then with the lowest id; if there is none, time goes on to the next instant at which there may
/// be one. Inputs are sent when the op is scheduled, in the order they were produced, each from the
/// later of its production and the last booking of the channels it needs (the channels of
/// problem.engine.transfers; nothing is sent earlier than what is already booked). The estimate
/// books on a copy of the clocks, so it is what the commitment will be.
///
/// The plan overlaps computing and transfers, also where problem.engine.overlap is off.
///
/// Memory, per device: weights of what is placed there, from time 0 on; outputs until their last
/// reader has ended, copies until their last reader scheduled so far on that device has, workspace
/// while the op runs. An op that does not fit waits for memory to be freed. A group is placed with
/// its first member, if its weights and its most demanding member fit.
///
/// With favourites (m-SCT): a device whose last op's favourite child is ready, and can start
/// nowhere earlier than there, waits for it, unless an op is urgent: one that could start by now on
/// every device with room for it. The lowest (urgent time, id) goes first.
///
/// The PyTorch variant plans any number of transfers at once, whatever problem.engine.transfers
/// says, and frees nothing; and of the ops that could be started it starts the one that became
/// ready first, not the lowest.
///
/// The result is simulated (problem.engine), unless every device has room for all there is: one
/// that runs out of memory is not returned.
/// Throws InfeasibleError, `name` first, saying what got stuck where.
/// Source: Baechi (SoCC'20), sections 2 and 3; ETF: Hwang et al., SIAM J. Comput. 1989. Deviations
/// from the published code are listed in placers/README.md.
Placement schedule_list(const Problem& problem, const ListSchedulerOptions& options,
                        std::string_view name);

}  // namespace baechi
