/// Placements that keep modules of the model whole, as frameworks require: a device for each
/// module, not for each op.
#pragma once
#include <set>

#include "sim/problem/problem.h"

namespace baechi {

/// The modules of a device map.
struct WholeModules {
  /// First the whole modules, in the order of their first ops; {""}: the model as a whole. Then
  /// the divided modules whose own ops need a device, because they hold weights or read what the
  /// caller passes: a framework moves a module's inputs to its device. A key is also for the
  /// weights that a module holds beside its inner modules.
  std::vector<std::string> names;
  std::size_t num_whole = 0;
  /// [num_ops] The module on whose device the op runs. Ops directly inside a divided module run
  /// where their inputs are.
  IdVector<OpId, std::uint32_t> of{};
  /// [names] The first module that must share its device, possibly itself.
  std::vector<std::uint32_t> together{};
  /// [names] An op that reads the results of several modules that are together with it; no_op:
  /// none does.
  std::vector<OpId> join{};
  /// Modules with ops directly inside: those are called, and so a framework can move their inputs;
  /// of others, such as lists of modules, it is not known.
  std::set<std::string, std::less<>> called{};
};

/// What whole_modules() may divide.
struct DivisionRules {
  /// Names of modules that are never divided, and patterns of them as in fnmatch(3).
  std::vector<std::string> no_split{};
  /// For stages of a pipeline, which begin between calls of modules: does not divide a module whose
  /// own ops hold weights, or read both its inputs and results of inner modules.
  bool stages = false;
};

/// The smallest modules that can be on devices of their own. Modules are together if an op directly
/// inside the enclosing module reads their results, such as branches that are added, or if they
/// share a colocation group, such as tied weights: frameworks move the inputs of modules only.
/// If no op has a module, the model is whole: {""}.
WholeModules whole_modules(const OpGraph& graph, const DivisionRules& rules = {});

/// The device of each module, [names]: for modules that are together, the device on which their ops
/// compute longest in `placement`; ties: the lower device.
std::vector<DeviceId> devices_of_modules(const Problem& problem, const WholeModules& modules,
                                         const Placement& placement);

/// The same graph with a group for each set of modules that are together.
OpGraph group_modules(const OpGraph& graph, const WholeModules& modules);

Placement place_on_modules(const OpGraph& graph, const WholeModules& modules,
                           const std::vector<DeviceId>& device);

/// The shortest equivalent list of modules: a called module replaces its inner modules if they are
/// all on one device. The model itself, if listed, is the first; the others are in the model's
/// order.
std::vector<std::pair<std::string, DeviceId>> device_map(const WholeModules& modules,
                                                         const std::vector<DeviceId>& device);

/// The result of cut_line().
struct PipelineCuts {
  std::vector<std::uint32_t> first;  ///< [stages] the module that each stage begins with
  std::vector<DeviceId> device;      ///< [stages]
  std::vector<DeviceId> of_module;   ///< [WholeModules::names]
  Duration longest{};                ///< the compute time of the longest stage
};

/// Cuts the modules, in their order, into stages of the least compute time of the longest, for each
/// number of devices, ascending, whatever the order of the devices. The persistent bytes of a stage
/// fit in `limit` [devices]. Ties: earlier cuts. Nothing if no cuts fit. Modules of one colocation
/// group may be cut apart.
std::vector<PipelineCuts> cut_line(const Problem& problem, const WholeModules& modules,
                                   const IdVector<DeviceId, Bytes>& limit);

}  // namespace baechi
