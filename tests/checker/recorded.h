/// Simulates one step of a small graph and records when everything in the step happened.
#pragma once
#include <doctest/doctest.h>

#include "tests/checker/schedule_checker.h"

namespace baechi::testing {

/// Simulates one step.
inline StepResult run(const OpGraph& graph, const Cluster& cluster, const Placement& placement,
                      EngineOptions engine = {}) {
  const ProfiledCosts costs(graph, cluster);
  return simulate({graph, cluster, costs, engine}, placement);
}

/// A simulated step with its recorded events. The constructor checks that the step has no faults().
class Recorded {
 public:
  Recorded(const OpGraph& graph, const Cluster& cluster, const Placement& placement,
           EngineOptions engine = {})
      : graph_(graph) {
    const ProfiledCosts costs(graph, cluster);
    run_ = record({graph, cluster, costs, engine}, placement);
    CHECK(faults({graph, cluster, costs, engine}, placement, run_).empty());
  }
  const StepResult& result() const { return run_.result; }
  /// When `op` started; -1 ns if it did not start.
  Duration start_of(std::string_view op) const {
    for (const Work& w : run_.work)
      if (!w.is_transfer && graph_.name(w.op) == op) return w.start.time_since_epoch();
    return Duration{-1};
  }
  /// The start times of the transfers to `dst`, in the order in which the transfers started.
  std::vector<Duration> transfers_to(DeviceId dst) const {
    std::vector<Duration> all;
    for (const Work& w : run_.work)
      if (w.is_transfer && w.dst == dst) all.push_back(w.start.time_since_epoch());
    return all;
  }
  /// The memory use of `d` at `t`: the last report at or before `t`.
  MemoryUse use(DeviceId d, Duration t) const {
    MemoryUse last;
    for (const MemoryReport& r : run_.memory)
      if (r.device == d && r.at.time_since_epoch() <= t) last = r.use;
    return last;
  }

 private:
  const OpGraph& graph_;
  RecordedRun run_;
};

}  // namespace baechi::testing
