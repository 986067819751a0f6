/// The object of verbs and selectors of what-if rules: a step, and the devices that will run it.
#pragma once
#include <functional>
#include <memory>
#include <vector>

#include "sim/cluster/device_model.h"
#include "sim/transform/transform.h"

namespace baechi::what_if {

/// The devices that a step is for, as far as they are known.
struct StepDevices {
  /// The graph with times by work, if it has none of its own; the same graph if it has.
  std::function<OpGraph(const OpGraph&)> timed{};
  /// One for each kind of device that a device table knows; the first device's first.
  std::vector<std::shared_ptr<const DeviceModel>> models{};
};

/// A step before or after its ops have devices.
struct Step {
  OpGraph graph;
  IdVector<OpId, DeviceId> device{};  ///< [num_ops]; empty before placing

  bool placed() const { return !device.empty(); }
  DeviceId device_of(OpId v) const { return placed() ? device[v] : DeviceId{}; }
};

/// The data that a rule may ask for: the step, and the known facts of its devices.
struct Scope {
  const Step& step;
  const StepDevices& devices;

  const OpGraph& graph() const { return step.graph; }
};

/// Which ops a rule is about. [num_ops]
using Selection = IdVector<OpId, bool>;

/// The result of a verb on a step.
struct Change {
  OpGraph graph;
  IdVector<OpId, OpId> stands_for{};  ///< [ops of the step] as Transformed::stands_for
  IdVector<OpId, OpId> beside{};      ///< [ops of graph] the op of the step whose device it is on
  /// [ops of graph] Ops whose work the verb changed. Their times change in proportion to the
  /// roofline of the work; empty: none.
  IdVector<OpId, bool> reworked{};
};

/// The step after `change`: every op on the device of the op it is beside; where a device model is
/// known, with new times of reworked ops, and times of new ops that state their work.
Step settled(const Step& before, Change change, const StepDevices& devices);

}  // namespace baechi::what_if
