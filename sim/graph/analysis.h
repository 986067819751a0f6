/// Facts about a graph that placers, bounds and reports ask for.
#pragma once
#include "sim/graph/op_graph.h"

namespace baechi {

/// Bytes that `v` writes; control tensors take none.
Bytes output_bytes(const OpGraph& graph, OpId v);

/// Memory of `v` on its device while it runs: persistent + temporary + its outputs.
Bytes footprint(const OpGraph& graph, OpId v);

/// True for lanes of the host's part of a step: host, host_backward, host 2, ...
bool is_host_lane(std::string_view name);
bool on_host(const OpGraph& graph, OpId v);
/// The lane of launches that the host begins together with a pass of the device, not ahead of it.
inline constexpr std::string_view host_pass_lane = "host_pass";

/// The most that is in memory at once if all ops run on one device, in the order of their ids:
/// weights from the beginning, outputs until their last reader has ended, workspace.
Bytes one_device_peak(const OpGraph& graph);

/// An upper bound of any device's memory, for every placement and order: all footprints, and a copy
/// of each edge's tensor. A device with this much memory need not be counted.
Bytes peak_upper_bound(const OpGraph& graph);

/// Memory that every step fills at some instant, for every placement and order.
struct HeldAtOnce {
  Bytes weights;  ///< of all ops
  Bytes live;     ///< see held_at_once
  OpId op{};      ///< while it runs
  Bytes total() const { return weights + live; }
};

/// While an op runs, its outputs and workspace are held, and each tensor that an op before it has
/// written and that it or an op after it reads: on the tensor's own device, or as a copy. The
/// largest sum over the ops, with the weights; ties: the first op. On graphs of more than some
/// thousand ops not all ops are tried, but evenly spaced ones, 64 or more.
/// Requires at least one op.
HeldAtOnce held_at_once(const OpGraph& graph);

/// Whether the persistent bytes of `graph` are of one kind although it has a backward or update
/// pass: all are at forward ops. Several importers know one size per layer only: weights, gradients
/// and optimizer state together.
bool persistent_of_one_kind(const OpGraph& graph);

/// Longest path of op times through the whole graph, transfers free.
Duration critical_path(const OpGraph& graph);

/// Length of the longest path from each op to the end, its own time included (b-level; HEFT calls
/// it upward rank), given the time of each op and of each tensor's transfer. [num_ops] Source: HEFT
/// (Topcuoglu et al., TPDS 2002).
IdVector<OpId, Duration> b_levels(const OpGraph& graph, const IdVector<OpId, Duration>& compute,
                                  const IdVector<TensorId, Duration>& transfer);

/// Layer of each op: 0 for sources, else one more than the deepest predecessor. [num_ops]
IdVector<OpId, std::uint32_t> layers(const OpGraph& graph);

}  // namespace baechi
