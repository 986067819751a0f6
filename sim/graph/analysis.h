/// Properties of a graph that placers, bounds and reports use.
#pragma once
#include "sim/graph/op_graph.h"

namespace baechi {

/// Bytes that `v` writes; control tensors take none.
Bytes output_bytes(const OpGraph& graph, OpId v);

/// Memory of `v` on its device while it runs: persistent + temporary + its outputs.
Bytes footprint(const OpGraph& graph, OpId v);

/// True for the host's lanes: host, host_backward, host 2, ...
bool is_host_lane(std::string_view name);
bool on_host(const OpGraph& graph, OpId v);
/// The lane of launches that start together with a pass of the device (transform `host`, per:
/// pass).
inline constexpr std::string_view host_pass_lane = "host_pass";

/// Peak memory if all ops run on one device in the order of their ids: weights from the beginning,
/// outputs until their last reader has ended, workspace.
Bytes one_device_peak(const OpGraph& graph);

/// An upper bound of any device's memory, for every placement and order: all footprints, and a copy
/// of each edge's tensor.
Bytes peak_upper_bound(const OpGraph& graph);

/// A lower bound of the peak memory of all devices together, for every placement and order.
struct HeldAtOnce {
  Bytes weights;  ///< of all ops
  Bytes live;     ///< see held_at_once
  OpId op{};      ///< the op during which it is reached
  Bytes total() const { return weights + live; }
};

/// While an op runs, its outputs and workspace are held, and each tensor that one of its ancestors
/// wrote and that it or a descendant reads: on the producer's device, or as a copy. The largest sum
/// over the ops, plus weights; ties: the first op. On graphs of more than some thousand ops only 64
/// or more evenly spaced ops are tried. Requires at least one op.
HeldAtOnce held_at_once(const OpGraph& graph);

/// Whether all persistent bytes are at forward ops although the graph has a backward or update
/// pass. Several importers know one size per layer only: weights, gradients and optimizer state
/// together.
bool persistent_of_one_kind(const OpGraph& graph);

/// The longest path of op times, transfers free.
Duration critical_path(const OpGraph& graph);

/// Length of the longest path from each op to the end, its own time included (b-level; HEFT calls
/// it upward rank), given the time of each op and of each tensor's transfer. [num_ops] Source: HEFT
/// (Topcuoglu et al., TPDS 2002).
IdVector<OpId, Duration> b_levels(const OpGraph& graph, const IdVector<OpId, Duration>& compute,
                                  const IdVector<TensorId, Duration>& transfer);

/// Layer of each op: 0 for sources, else one more than the deepest predecessor. [num_ops]
IdVector<OpId, std::uint32_t> layers(const OpGraph& graph);

inline constexpr std::string_view asked_lane = "asked";

/// The ops of a shortest cycle through the op with the lowest id that lies on a cycle, in order,
/// each once. All ids are below `num_ops`. `edges` must contain a cycle.
std::vector<OpId> find_cycle(std::size_t num_ops, std::span<const Edge> edges);

}  // namespace baechi
