#include "sim/cluster/perturbed_costs.h"

#include <cmath>

#include "sim/random.h"
#include "sim/saturated.h"

namespace baechi {
namespace {

Duration scaled(Duration time, double factor) {
  return Duration{saturated(std::round(static_cast<double>(time.count()) * factor))};
}

}  // namespace

PerturbedCosts::PerturbedCosts(const CostModel& truth, const OpGraph& graph, double error,
                               std::uint64_t seed)
    : truth_(truth), op_(graph.num_ops()), tensor_(graph.num_tensors()) {
  Random random(seed);
  const auto factor = [&] { return 1.0 + error * (2.0 * random.uniform() - 1.0); };
  for (double& f : op_) f = factor();
  for (double& f : tensor_) f = factor();
}

Duration PerturbedCosts::compute(OpId op, DeviceId device) const {
  return scaled(truth_.compute(op, device), op_[op]);
}

Duration PerturbedCosts::latency(TensorId tensor, DeviceId src, DeviceId dst) const {
  return scaled(truth_.latency(tensor, src, dst), tensor_[tensor]);
}

Duration PerturbedCosts::transfer(TensorId tensor, DeviceId src, DeviceId dst) const {
  return scaled(truth_.transfer(tensor, src, dst), tensor_[tensor]);
}

}  // namespace baechi
