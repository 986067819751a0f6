/// Costs that count how often the time of an op is requested: a measure of a placer's work.
#pragma once
#include <atomic>

#include "sim/cluster/cost_model.h"

namespace baechi::testing {

class CountedCosts final : public CostModel {
 public:
  CountedCosts(const OpGraph& graph, const Cluster& cluster) : costs_(graph, cluster) {}
  Duration compute(OpId op, DeviceId device) const override {
    ++asked_;
    ++requests_here_;
    return costs_.compute(op, device);
  }
  Duration transfer(TensorId tensor, DeviceId src, DeviceId dst) const override {
    return costs_.transfer(tensor, src, dst);
  }
  Duration latency(TensorId tensor, DeviceId src, DeviceId dst) const override {
    return costs_.latency(tensor, src, dst);
  }
  Duration collective(const Collective& c, std::span<const DeviceId> devices) const override {
    return costs_.collective(c, devices);
  }
  bool same_compute(DeviceId a, DeviceId b) const override { return costs_.same_compute(a, b); }
  bool uniform_transfers() const override { return costs_.uniform_transfers(); }

  /// The number of requests that `work` makes.
  template <class Work>
  std::size_t asked_by(Work work) const {
    const std::size_t before = asked_;
    work();
    return asked_ - before;
  }
  /// A clock that each request advances by a nanosecond, on the thread of the request.
  static std::chrono::nanoseconds clock() { return std::chrono::nanoseconds(requests_here_); }

 private:
  static inline thread_local std::int64_t requests_here_ = 0;
  ProfiledCosts costs_;
  mutable std::atomic<std::size_t> asked_{0};
};

}  // namespace baechi::testing
