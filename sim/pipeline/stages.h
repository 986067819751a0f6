/// A placed graph as a pipeline sees it: devices in a line, and ops in chunks and passes.
#pragma once
#include <cstdint>
#include <vector>

#include "sim/pipeline/schedule.h"
#include "sim/problem/problem.h"

namespace baechi::pipeline {

inline constexpr std::uint32_t no_stage = ~std::uint32_t{0};

/// The devices that have ops, in the order of the pipeline.
struct Stages {
  std::vector<DeviceId> devices;            ///< by stage
  IdVector<DeviceId, std::uint32_t> stage;  ///< no_stage: the device has no op. [num_devices]
  std::size_t count = 0;
  bool in_line = true;  ///< no two devices feed each other in the same pass
};

/// One stage per device, in the order of their first forward ops.
Stages devices_as_stages(const Problem& problem, const Placement& placement);

/// A device is before its readers in the forward pass, and behind its readers in the backward pass;
/// ties by first forward ops. Devices that feed each other are one stage.
Stages stages_of(const Problem& problem, const Placement& placement);

/// Chunk and pass of each op.
struct Chunks {
  IdVector<OpId, std::uint32_t> chunk;  ///< [num_ops]
  IdVector<OpId, PassKind> pass;        ///< F, B or U. [num_ops]
  std::size_t laps = 1;                 ///< chunks per stage of Layout::loop
};

/// Layout::line and two_way: the op's stage. Update ops: the first chunk of their stage; all
/// updates of a stage run together. Otherwise a forward op is in the first chunk of its stage that
/// is not before the chunks of its inputs. A backward op is in the last chunk of its stage that is
/// not behind the chunk that it differentiates, nor behind the chunks of its inputs in the backward
/// pass. The last stage of Layout::vee has two chunks in a row: the later half of its forward ops,
/// by time, is in the second. Throws InputError if an op has no such chunk.
Chunks chunks_of(const Problem& problem, const Placement& placement, const Stages& stages,
                 const ScheduleEntry& schedule);

/// Moves ops from B to W: the backward ops from which no data flows to the backward pass of another
/// chunk. In a chunk that sends no gradients, such as the first chunk: the ops without backward
/// readers.
void split_weights(const OpGraph& graph, Chunks& chunks);

/// How long the passes of each chunk take: their ops of lane "compute" and their collectives, and
/// each tensor that goes to another device once for each of these. [chunks]
std::vector<PassTimes> pass_times(const Problem& problem, const Placement& placement,
                                  const Stages& stages, const Chunks& chunks);

/// Puts each op that serves others into the chunk and pass of the first of them. Throws InputError
/// if the host launches ops of several passes, or of other devices, at once.
void join_served(const Problem& problem, const Placement& placement, Chunks& chunks);

}  // namespace baechi::pipeline
