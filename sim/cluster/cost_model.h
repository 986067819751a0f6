/// How long things take. The engine and the placers ask the same model.
#pragma once
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
  /// The part of it that holds no channel in Transfers::staged.
  virtual Duration latency(TensorId tensor, DeviceId src, DeviceId dst) const = 0;
  /// Whether every op takes the same time on both devices.
  virtual bool compute_alike(DeviceId a, DeviceId b) const { return a == b; }
  /// Whether every tensor takes the same time between any two devices.
  virtual bool transfers_alike() const { return false; }
};

/// Measured op times scaled by device speed, rounded up to a nanosecond; a transfer costs latency +
/// size / bandwidth, or the tensor's measured time where the trace has one. An op cannot run on the
/// device kinds it has no time for.
/// Source: Baechi (SoCC'20): communication time is linear in size.
class ProfiledCosts final : public CostModel {
 public:
  /// Throws InputError if the graph has no times for the kind of a device, or an op none for any
  /// device.
  ProfiledCosts(const OpGraph& graph, const Cluster& cluster);
  Duration compute(OpId op, DeviceId device) const override;
  Duration transfer(TensorId tensor, DeviceId src, DeviceId dst) const override;
  Duration latency(TensorId tensor, DeviceId src, DeviceId dst) const override;
  bool compute_alike(DeviceId a, DeviceId b) const override;
  bool transfers_alike() const override;

 private:
  const OpGraph& graph_;
  const Cluster& cluster_;
  IdVector<DeviceId, std::size_t> kind_;  // column of the graph's times for each device
};

/// The original's transfer times: us_per_byte * factor * bytes + intercept_us, whatever the link;
/// op times as ProfiledCosts. Measured transfer times are kept. Source: Baechi's code; the values
/// are its fits over PCIe.
class BaechiCosts final : public CostModel {
 public:
  /// Of TensorFlow: rounded half to even to whole microseconds, empty tensors cost the intercept.
  struct Fit {
    double us_per_byte = 0.0001754;
    double intercept_us = 134.0;
    double factor = 1.0;
    bool whole_us = true;     ///< else whole nanoseconds
    bool empty_free = false;  ///< 0 bytes take no time
  };
  /// Of PyTorch; its code raises what was measured per byte by the factor.
  static constexpr Fit pytorch_fit{.us_per_byte = 0.0001788,
                                   .intercept_us = 100.0,
                                   .factor = 1.2,
                                   .whole_us = false,
                                   .empty_free = true};
  BaechiCosts(const OpGraph& graph, const Cluster& cluster, Fit fit);
  Duration compute(OpId op, DeviceId device) const override {
    return profiled_.compute(op, device);
  }
  Duration transfer(TensorId tensor, DeviceId src, DeviceId dst) const override;
  Duration latency(TensorId tensor, DeviceId src, DeviceId dst) const override;
  bool compute_alike(DeviceId a, DeviceId b) const override {
    return profiled_.compute_alike(a, b);
  }
  bool transfers_alike() const override { return true; }
  /// The fit itself, of `size` bytes.
  static Duration transfer_time(Bytes size, Fit fit);

 private:
  const OpGraph& graph_;
  ProfiledCosts profiled_;
  Fit fit_;
};

}  // namespace baechi
