/// Placements that keep modules of the model whole, as frameworks take them: a device for each
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
  /// [num_ops] The module that the op is in; none: it runs where its inputs are.
  IdVector<OpId, std::uint32_t> of{};
  /// [names] The first module that shares a device with it, perhaps itself.
  std::vector<std::uint32_t> together{};
};

/// The smallest modules that can be on devices of their own:
/// - a module with an op right inside that reads both what one of its inner modules wrote and what
///   came from outside, such as the sum of a residual block, is whole: when it runs, what came from
///   outside is on the device of whoever made it;
/// - so is a module with inner modules that holds weights itself;
/// - modules whose results one op right inside the module around them reads, such as branches that
///   are concatenated, are together; so are modules that share a colocation group, such as tied
///   weights.
/// Throws InputError if no op has a module.
WholeModules whole_modules(const OpGraph& graph);

/// The device of each module, [names]: of the modules that are together, the device on which their
/// ops compute longest in `placement`; ties: the lower device.
std::vector<DeviceId> rounded(const Problem& problem, const WholeModules& modules,
                              const Placement& placement);

/// The same graph with a group for each set of modules that are together.
OpGraph grouped(const OpGraph& graph, const WholeModules& modules);

/// Every op on the device of its module; an op of none where its largest input is, a backward op of
/// none where its forward op is.
Placement spread(const OpGraph& graph, const WholeModules& modules,
                 const std::vector<DeviceId>& device);

/// The shortest list of modules, outermost first, that says the same: where all modules inside
/// another are on one device, that one stands for them. Sorted as the model has them.
std::vector<std::pair<std::string, DeviceId>> device_map(const WholeModules& modules,
                                                         const std::vector<DeviceId>& device);

}  // namespace baechi
