/// Transfer times as in the published Baechi code.
#pragma once
#include "sim/cluster/cost_model.h"

namespace baechi {

/// Transfers take us_per_byte * factor * bytes + intercept_us on every link, or their measured
/// time; ops as in ProfiledCosts. Source: Baechi's code; the values are its fits over PCIe.
class OriginalCosts final : public CostModel {
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
  Duration compute(OpId op, DeviceId device) const override {
    return profiled_.compute(op, device);
  }
  Duration transfer(TensorId tensor, DeviceId src, DeviceId dst) const override;
  Duration latency(TensorId tensor, DeviceId src, DeviceId dst) const override;
  Duration collective(const Collective& c, std::span<const DeviceId> devices) const override {
    return profiled_.collective(c, devices);
  }
  bool same_compute(DeviceId a, DeviceId b) const override { return profiled_.same_compute(a, b); }
  bool uniform_transfers() const override { return true; }
  /// The fit itself, of `size` bytes.
  static Duration transfer_time(Bytes size, Fit fit);

 private:
  const OpGraph& graph_;
  ProfiledCosts profiled_;
  Fit fit_;
};

}  // namespace baechi
