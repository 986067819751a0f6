/// The input of placers, a placement problem; their result, a placement; and properties of problems
/// that placers use.
#pragma once
#include <map>

#include "sim/cluster/cost_model.h"
#include "sim/problem/engine_options.h"

namespace baechi {

/// A graph on a cluster, with costs and engine options. The graph, cluster and costs must outlive
/// the Problem.
struct Problem {
  const OpGraph& graph;
  const Cluster& cluster;
  const CostModel& costs;
  EngineOptions engine{};  ///< how the step will be executed
};

/// A device for every op, and optionally priorities.
struct Placement {
  IdVector<OpId, DeviceId> device{};        ///< [num_ops]
  IdVector<OpId, std::int32_t> priority{};  ///< [num_ops], the largest runs first; or empty: by id
  std::map<std::string, double> facts{};    ///< other results of the placer: LP bound, retries, ...
  std::string detail{};                     ///< one line for the user, or ""
  /// The placer that computed it if that is not the selected one: "heft" for auto, "fallback:heft"
  /// for the option `fallback`. Else "".
  std::string placed_by{};
  /// The time that an external program says it took, without its start; else nothing.
  std::optional<std::chrono::nanoseconds> own_placing{};
  /// [num_ops] Where the weights of an op wait between their uses, or an update op runs with its
  /// state: a device that does not compute, else the op's own; or empty: nothing waits.
  IdVector<OpId, DeviceId> home{};
  std::int64_t prefetch = 0;  ///< modules whose waiting weights are copied ahead of their use

  bool waits(OpId v) const { return !home.empty() && home[v] != device[v]; }
};

/// A colocation group on several devices: its first member, and the first one on another device.
struct SplitGroup {
  GroupId group{};
  OpId first{}, other{};
};
std::vector<SplitGroup> split_groups(const Placement& placement, const OpGraph& graph);

/// Bytes of the tensors that `v` reads, each once; its device holds them, in addition to the
/// footprint of `v`, while `v` runs.
Bytes bytes_read(const OpGraph& graph, OpId v);

struct DeviceClass {
  std::vector<DeviceId> devices;  ///< ascending
  bool core = false;              ///< without transfer costs and memory limit
  Bytes memory{};                 ///< of each
};
/// Sorted by first device. Devices of one class have the same type, memory limit and speed.
std::vector<DeviceClass> device_classes(const Problem& problem);

/// Ordered pairs of devices with equal links.
struct Pairs {
  DeviceId src{}, dst{};  ///< one of them
  std::int64_t count = 0;
};
/// All pairs of different devices, by link. Sorted by first pair.
std::vector<Pairs> pairs_by_link(const Cluster& cluster);

/// The mean of each op's time over the devices that can run it, rounded down. [num_ops]
IdVector<OpId, Duration> mean_compute(const Problem& problem);

/// The mean of each tensor's transfer time over the ordered pairs of devices, rounded down; 0 with
/// one device. Pairs with equal links are assumed to have equal times. [num_tensors]
IdVector<TensorId, Duration> mean_transfer(const Problem& problem);

struct LowerBounds {
  Duration critical_path{};  ///< longest path, every op on its fastest device, transfers free
  Duration work{};           ///< total op time, divided over the devices by speed
  /// `work` without update ops, rounded down: per micro-batch if updates run once.
  Duration repeated{};
  Duration group{};  ///< the longest colocation group on its fastest device
  /// Weights that devices cannot hold, over their links from hosts and disks; 0 in a training.
  Duration offload{};
  bool fits_in_memory = true;
  std::string why_not{};  ///< if it does not fit: what needs how much, and the available memory

  Duration best() const;             ///< the largest of critical_path, work, group and offload
  std::string_view binding() const;  ///< its name; ties: in the order above
};

/// Bounds of a step under Semantics::event. Memory: all devices together must hold all weights plus
/// the bytes held while an op runs (held_at_once). The largest device must hold each op's footprint
/// with its inputs, and each group's weights with the largest other need of its ops.
LowerBounds lower_bounds(const OpGraph& graph, const Cluster& cluster, const CostModel& costs);

/// Throws InputError: a step would take more than 146 years with the engine's factor `key`.
[[noreturn]] void refuse_factor(std::string_view key, double factor);

/// Throws InputError if a single op or collective takes more than 146 years with the engine's
/// factors for work that overlaps.
void check_factors(const OpGraph& graph, const Cluster& cluster, const CostModel& costs,
                   const EngineOptions& engine);

/// Throws InputError unless every step of the problem, for every placement and order, takes less
/// than 2^62 ns (146 years) and moves and holds less than 2^60 bytes (1 EiB). The bound adds each
/// op's time on its slowest device and, for each reader of a tensor, the transfer over the slowest
/// link. The message names the largest part: "a step could take more than 146 years: link
/// gpu0-gpu1, 5.7 B/s". If some op cannot run on some device, every op must take less than
/// `cannot_run`. `times`: the number of executions of the graph in one step, one for each
/// micro-batch.
void check_limits(const OpGraph& graph, const Cluster& cluster, const CostModel& costs,
                  std::int64_t times = 1);

}  // namespace baechi
