/// The input of verbs and selectors of what-if rules: a step and its devices.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "sim/cluster/device_model.h"
#include "sim/transform/transform.h"

namespace baechi::what_if {

/// What is known about the devices of a step.
struct StepDevices {
  /// Adds times by work to a graph without times.
  std::function<OpGraph(const OpGraph&)> timed{};
  /// One for each device type in the device table; the first device's type first.
  std::vector<std::shared_ptr<const DeviceModel>> models{};
};

/// A step before or after its ops have devices.
struct Step {
  OpGraph graph;
  IdVector<OpId, DeviceId> device{};  ///< [num_ops]; empty before placing

  bool placed() const { return !device.empty(); }
  DeviceId device_of(OpId v) const { return placed() ? device[v] : DeviceId{}; }
};

/// The data that a rule may use.
struct Scope {
  const Step& step;
  const StepDevices& devices;

  const OpGraph& graph() const { return step.graph; }
};

/// The ops that a rule selects. [num_ops]
using Selection = IdVector<OpId, bool>;

/// The result of a verb on a step.
struct Change {
  OpGraph graph;
  IdVector<OpId, OpId> mapped_op{};  ///< [ops of the step] as Transformed::mapped_op
  IdVector<OpId, OpId> anchor{};     ///< [ops of graph] the op of the step whose device it is on
  /// [ops of graph] Ops whose work the verb changed: their times are scaled by the roofline of the
  /// work. Empty: none.
  IdVector<OpId, bool> reworked{};
};

/// The step after `change`: every op on the device of its anchor; with a device model, also new
/// times of reworked ops, and times of new ops with work.
Step apply_change(const Step& before, Change change, const StepDevices& devices);

}  // namespace baechi::what_if
