/// The pipeline structure of a placed graph: roles of ops, devices as stages, ops in chunks and
/// passes.
#pragma once
#include <cstdint>
#include <vector>

#include "sim/graph/op_graph.h"
#include "sim/pipeline/schedule.h"
#include "sim/problem/problem.h"

namespace baechi::pipeline {

bool is_forward(const OpGraph& graph, OpId v);
bool is_backward(const OpGraph& graph, OpId v);

/// Whether `v` is a host op that launches ops of its device ahead of them.
bool launches(const OpGraph& graph, OpId v);
/// Whether `v` serves other ops of its device and runs concurrently with them: it launches them, or
/// it is an all_gather, outside the update and without data inputs, of weights that they read.
bool serves(const OpGraph& graph, OpId v);
/// Whether `v` starts a transfer when its receiver requests it (lane `asked_lane`).
bool is_asked(const OpGraph& graph, OpId v);
/// Whether `v` is a collective that reduces gradients.
bool reduces_gradients(const OpGraph& graph, OpId v);

inline constexpr std::uint32_t no_stage = ~std::uint32_t{0};

/// The devices with ops, in pipeline order.
struct Stages {
  std::vector<DeviceId> devices;            ///< by stage
  IdVector<DeviceId, std::uint32_t> stage;  ///< no_stage: the device has no op. [num_devices]
  std::size_t count = 0;
  bool in_line = true;  ///< no two devices feed each other in the same pass
};

/// One stage per device, in the order of their first forward ops.
Stages devices_as_stages(const Problem& problem, const Placement& placement);

/// A device precedes its readers in the forward pass and follows its readers in the backward pass;
/// ties by first forward ops. Devices that feed each other are one stage.
Stages stages_of(const Problem& problem, const Placement& placement);

/// Chunk and pass of each op.
struct Chunks {
  IdVector<OpId, std::uint32_t> chunk;  ///< [num_ops]
  IdVector<OpId, PassKind> pass;        ///< F, B or U. [num_ops]
  std::size_t laps = 1;                 ///< chunks per stage of Layout::loop
};

/// Layout::line and two_way: the op's stage. Other layouts: update ops are in the first chunk of
/// their stage. A forward op is in the first chunk of its stage that does not precede the chunks of
/// its inputs. A backward op is in the last chunk of its stage that follows neither the chunk that
/// it differentiates nor the chunks of its inputs in the backward pass. The last stage of
/// Layout::vee has two successive chunks: the later half of its forward ops, by time, is in the
/// second. Throws InputError if an op has no such chunk.
Chunks chunks_of(const Problem& problem, const Placement& placement, const Stages& stages,
                 const ScheduleEntry& schedule);

/// Moves ops from B to W: backward ops without a data path to the backward pass of another chunk;
/// in chunks that send no gradients, such as the first, the ops without backward readers.
void split_weights(const OpGraph& graph, Chunks& chunks);

/// The times of each chunk's passes: ops of lane "compute" and collectives, and one transfer per
/// tensor and receiving device. [chunks]
std::vector<PassTimes> pass_times(const Problem& problem, const Placement& placement,
                                  const Stages& stages, const Chunks& chunks);

/// Puts each op that serves() others into the chunk and pass of the first of them. Throws
/// InputError if one host op launches ops of several passes or devices.
void join_served(const Problem& problem, const Placement& placement, Chunks& chunks);

}  // namespace baechi::pipeline
