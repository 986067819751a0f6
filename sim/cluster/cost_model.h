/// Times of ops, transfers and collectives, for the engine and the placers alike.
#pragma once
#include <span>
#include <vector>

#include "sim/cluster/cluster.h"
#include "sim/graph/op_graph.h"

namespace baechi {

/// The time of an op on a device that cannot run it: longer than any step, and small enough that
/// sums over a graph do not overflow.
inline constexpr Duration cannot_run{std::int64_t{1} << 46};  // 19 hours

/// For one graph and one cluster, which must outlive it.
class CostModel {
 public:
  virtual ~CostModel() = default;
  /// `cannot_run` if the device cannot run the op.
  virtual Duration compute(OpId op, DeviceId device) const = 0;
  /// Without contention; `src` and `dst` differ.
  virtual Duration transfer(TensorId tensor, DeviceId src, DeviceId dst) const = 0;
  /// The part of transfer() that holds no channel in Transfers::staged.
  virtual Duration latency(TensorId tensor, DeviceId src, DeviceId dst) const = 0;
  /// Without contention. `devices`: the members' devices, in the order of the members.
  virtual Duration collective(const Collective& c, std::span<const DeviceId> devices) const = 0;
  /// Whether every op takes the same time on both devices.
  virtual bool same_compute(DeviceId a, DeviceId b) const { return a == b; }
  /// Whether every tensor takes the same time between any two devices.
  virtual bool uniform_transfers() const { return false; }
};

/// Measured op times divided by device speed (except ops of the host), rounded up to a nanosecond;
/// a transfer takes latency + size / bandwidth, or the tensor's measured time if the trace has one.
/// An op cannot run on device types for which it has no time.
/// Source: Baechi (SoCC'20): communication time is linear in size.
class ProfiledCosts final : public CostModel {
 public:
  /// Throws InputError if the graph has no times for a device's type, or an op has none for any
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
