/// Placements of whole modules in a line of stages, the form of pipelines that frameworks accept.
#pragma once
#include <optional>
#include <vector>

#include "placers/whole_modules.h"

namespace baechi {

/// The result of cut_line().
struct PipelineCuts {
  std::vector<std::uint32_t> first;  ///< [stages] the module that each stage begins with
  std::vector<DeviceId> device;      ///< [stages]
  std::vector<DeviceId> of_module;   ///< [modules]
};

/// The objective of a line of stages: close to a placement, or balanced.
enum class CutGoal : std::uint8_t {
  nearest,   ///< the least compute time on devices other than those of the placement
  balanced,  ///< the least compute time of the busiest stage
};

/// Cuts the modules, in their order, into one stage for each device that `placement` uses, in the
/// mean order in which the placement uses them; a stage without modules is omitted. The persistent
/// bytes of a stage fit its device. Ties: earlier cuts. Nothing if no cuts fit. Modules of one
/// colocation group may be cut apart.
std::optional<PipelineCuts> cut_line(const Problem& problem, const WholeModules& modules,
                                     const Placement& placement, CutGoal goal);

}  // namespace baechi
