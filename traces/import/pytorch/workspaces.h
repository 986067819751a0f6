/// Temporary bytes of a recorded step's ops, from the allocations that a profiler saw.
#pragma once
#include <cstdint>
#include <vector>

#include "sim/names.h"
#include "traces/import/pytorch/dataflow.h"
#include "traces/import/pytorch/optimizer_step.h"
#include "traces/import/pytorch/step_times.h"

namespace baechi::pytorch {

/// What counts as an op's workspace.
enum class Workspace : std::uint8_t {
  call,  ///< also what the calls around the op hold, and the graph lets go of
  op,    ///< what the op allocates
};
constexpr auto names_of(Workspace) {
  return std::to_array<Named<Workspace>>({{Workspace::call, "call"}, {Workspace::op, "op"}});
}

/// PyTorch frees a storage as a whole. Where ops wrote parts of a storage, such as the gates of a
/// recurrent cell, the last reader of any part becomes a reader of each part.
void hold_parts(Dataflow& flow);

/// Temporary bytes. [flow.ops] Workspace::op: the peak while the op runs, less the bytes before it,
/// less its outputs. Workspace::call: the peak while the op runs, less the bytes before the
/// outermost operator or function of autograd around it, less what the graph itself holds more than
/// it did then. PyTorch holds what an operator or a function of autograd read and made until that
/// ends; the graph holds a tensor until its last reader ends.
///
/// An update's memory counts from the beginning of the optimizer's call if updates run after the
/// backward pass, because Python's variables hold what an update allocated until a later update.
std::vector<std::int64_t> workspaces(const Dataflow& flow, const Times& times, Workspace workspace,
                                     UpdateOrder optimizer);

/// The op's outputs that other ops read, with the results of its call first. If no op reads any,
/// at the end of the step: all outputs of the op but those in memory that stays, or none if it is
/// an update.
std::vector<const Contents*> outputs(const RecordedOp& op);

/// The outermost operator or function of autograd around `call`.
const Call& outermost(const Call& call);

/// Whether the step allocates the bytes: no input, not what was there before, and no reference.
bool is_new(const Contents& c);

}  // namespace baechi::pytorch
