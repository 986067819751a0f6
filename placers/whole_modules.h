/// Placements that keep modules of the model whole, as frameworks require: a device for each
/// module, not for each op.
#pragma once
#include <string>
#include <vector>

#include "sim/problem/problem.h"

namespace baechi {

/// The modules that are placed whole. None is inside another.
struct WholeModules {
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  std::vector<std::string> names;  ///< in the order of their first ops; {""}: the model as a whole
  /// [num_ops] The module of the op; none: it runs where its inputs are.
  IdVector<OpId, std::uint32_t> of{};
  /// [names] The first module that must share its device, possibly itself.
  std::vector<std::uint32_t> together{};
};

/// The smallest modules that can be on devices of their own:
/// - a module is whole if an op directly inside reads both the output of an inner module and a
///   tensor from outside, such as the sum of a residual block: at run time, the tensor from outside
///   is on its producer's device;
/// - a module with inner modules is whole if it holds weights itself;
/// - modules are together if one op directly inside the enclosing module reads their results, such
///   as branches that are concatenated, or if they share a colocation group, such as tied weights.
/// Throws InputError if no op has a module.
WholeModules whole_modules(const OpGraph& graph);

/// The device of each module, [names]: for modules that are together, the device on which their ops
/// compute longest in `placement`; ties: the lower device.
std::vector<DeviceId> devices_of_modules(const Problem& problem, const WholeModules& modules,
                                         const Placement& placement);

/// The same graph with a group for each set of modules that are together.
OpGraph group_modules(const OpGraph& graph, const WholeModules& modules);

/// Places every op on the device of its module; an op without a module where its largest input is,
/// a backward op without one where its forward op is.
Placement place_on_modules(const OpGraph& graph, const WholeModules& modules,
                           const std::vector<DeviceId>& device);

/// The shortest equivalent list of modules, outermost first: a module replaces its inner modules if
/// they are all on one device. Sorted in the model's order.
std::vector<std::pair<std::string, DeviceId>> device_map(const WholeModules& modules,
                                                         const std::vector<DeviceId>& device);

}  // namespace baechi
