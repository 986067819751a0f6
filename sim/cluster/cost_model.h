/// How long things take. The engine and the placers ask the same model.
#pragma once
#include <span>
#include <vector>

#include "sim/cluster/cluster.h"
#include "sim/graph/op_graph.h"

namespace baechi {

/// Stands for the time of an op on a device that cannot run it: longer than any step, and small
/// enough to be added up over a graph.
inline constexpr Duration cannot_run{std::int64_t{1} << 46};  // 19 hours

/// Bound to one graph and one cluster, which outlive it.
class CostModel {
 public:
  virtual ~CostModel() = default;
  /// `cannot_run` if it cannot run there.
  virtual Duration compute(OpId op, DeviceId device) const = 0;
  /// Uncontended; `src` and `dst` differ.
  virtual Duration transfer(TensorId tensor, DeviceId src, DeviceId dst) const = 0;
  /// The part of a transfer's time that holds no channel in Transfers::staged.
  virtual Duration latency(TensorId tensor, DeviceId src, DeviceId dst) const = 0;
  /// The time of a collective alone on its links. `devices`: the members' devices, in the order of
  /// the members.
  virtual Duration collective(const Collective& c, std::span<const DeviceId> devices) const = 0;
  /// Whether every op takes the same time on both devices.
  virtual bool same_compute(DeviceId a, DeviceId b) const { return a == b; }
  /// Whether every tensor takes the same time between any two devices.
  virtual bool uniform_transfers() const { return false; }
};

/// Measured op times scaled by device speed, the host's excepted, rounded up to a nanosecond; a
/// transfer costs latency + size / bandwidth, or the tensor's measured time where the trace has
/// one. An op cannot run on the device kinds it has no time for.
/// Source: Baechi (SoCC'20): communication time is linear in size.
class ProfiledCosts final : public CostModel {
 public:
  /// Throws InputError if the graph has no times for the kind of a device, or an op none for any
  /// device.
  ProfiledCosts(const OpGraph& graph, const Cluster& cluster);
  Duration compute(OpId op, DeviceId device) const override;
  Duration transfer(TensorId tensor, DeviceId src, DeviceId dst) const override;
  Duration latency(TensorId tensor, DeviceId src, DeviceId dst) const override;
  Duration collective(const Collective& c, std::span<const DeviceId> devices) const override;
  bool same_compute(DeviceId a, DeviceId b) const override;
  bool uniform_transfers() const override;

 private:
  const OpGraph& graph_;
  const Cluster& cluster_;
  const bool has_host_;                   // whether the graph has a lane of the host
  IdVector<DeviceId, std::size_t> kind_;  // column of the graph's times for each device
};

}  // namespace baechi
