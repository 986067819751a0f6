/// Costs with random errors, for placers only; the engine uses the true costs.
#pragma once
#include <cstdint>

#include "sim/cluster/cost_model.h"

namespace baechi {

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
