/// Times of ops, transfers and collectives, for the engine and the placers alike.
#pragma once
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
/// An op cannot run on device types for which it has no time; on hosts and disks it then takes the
/// time of the graph's first type.
/// Source: Baechi (SoCC'20): communication time is linear in size.
class ProfiledCosts : public CostModel {
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

 protected:
  const OpGraph& graph_;

 private:
  const Cluster& cluster_;
  const bool has_host_;                   // whether the graph has a lane of the host
  IdVector<DeviceId, std::size_t> kind_;  // column of the graph's times for each device
};

/// Transfers take us_per_byte * factor * bytes + intercept_us on every link, or their measured
/// time; ops as in ProfiledCosts. Source: Baechi's code; the values are its fits over PCIe.
class OriginalCosts final : public ProfiledCosts {
 public:
  /// Defaults: TensorFlow's. Rounds half to even to whole microseconds; empty tensors take the
  /// intercept.
  struct Fit {
    double us_per_byte = 0.0001754;
    double intercept_us = 134.0;
    double factor = 1.0;
    bool whole_us = true;     ///< false: whole nanoseconds
    bool empty_free = false;  ///< 0 bytes take no time
  };
  /// PyTorch's: its code multiplies the measured time per byte by `factor`.
  static constexpr Fit pytorch_fit{.us_per_byte = 0.0001788,
                                   .intercept_us = 100.0,
                                   .factor = 1.2,
                                   .whole_us = false,
                                   .empty_free = true};
  OriginalCosts(const OpGraph& graph, const Cluster& cluster, Fit fit);
  Duration transfer(TensorId tensor, DeviceId src, DeviceId dst) const override;
  Duration latency(TensorId tensor, DeviceId src, DeviceId dst) const override;
  bool uniform_transfers() const override { return true; }
  /// The fit itself, of `size` bytes.
  static Duration transfer_time(Bytes size, Fit fit);

 private:
  Fit fit_;
};

/// Multiplies the time of every op and of every tensor's transfer by an own factor, uniform in
/// 1 +- `error`, the same on all devices and links and determined by `seed`; rounds to a
/// nanosecond. 0 <= error < 1. Source: Baechi (extended paper), section 5.6, where it is 20 %.
class PerturbedCosts final : public CostModel {
 public:
  PerturbedCosts(const CostModel& truth, const OpGraph& graph, double error, std::uint64_t seed);
  Duration compute(OpId op, DeviceId device) const override;
  Duration transfer(TensorId tensor, DeviceId src, DeviceId dst) const override;
  Duration latency(TensorId tensor, DeviceId src, DeviceId dst) const override;
  Duration collective(const Collective& c, std::span<const DeviceId> devices) const override {
    return truth_.collective(c, devices);
  }
  bool same_compute(DeviceId a, DeviceId b) const override { return truth_.same_compute(a, b); }
  bool uniform_transfers() const override { return truth_.uniform_transfers(); }

 private:
  const CostModel& truth_;
  IdVector<OpId, double> op_;
  IdVector<TensorId, double> tensor_;
};

}  // namespace baechi
