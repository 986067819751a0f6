/// Costs with random errors: placers see them, the engine does not.
#pragma once
#include <cstdint>

#include "sim/cluster/cost_model.h"

namespace baechi {

/// Every op's and every tensor's time is `truth` times a factor of its own, the same on all devices
/// and links, uniform in 1 +- `error` and rounded to a nanosecond. The same `seed`, the same
/// factors. 0 <= error < 1. Source: Baechi (extended paper), section 5.6, where it is 20 %.
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
