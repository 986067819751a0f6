/// Placements of whole modules in a line of stages, as pipelines of frameworks take them.
#pragma once
#include <optional>
#include <vector>

#include "placers/whole_modules.h"

namespace baechi {

/// Where the line of modules is cut.
struct PipelineCuts {
  std::vector<std::uint32_t> first;  ///< [stages] the module that each stage begins with
  std::vector<DeviceId> device;      ///< [stages]
  std::vector<DeviceId> of_module;   ///< [modules]
};

/// The goal of a line of stages: near to a placement, or even.
enum class CutGoal : std::uint8_t {
  nearest,   ///< the least compute time on other devices than in the placement
  balanced,  ///< the least compute time of the busiest stage
};

/// Cuts the modules, in their order, into one stage for each device that `placement` uses, in the
/// order in which these come on average; a stage without modules is left out. The persistent bytes
/// of a stage fit its device. Ties: earlier cuts. Nothing if no cuts fit. Modules that are together
/// may be cut apart.
std::optional<PipelineCuts> cut_line(const Problem& problem, const WholeModules& modules,
                                     const Placement& placement, CutGoal goal);

}  // namespace baechi
