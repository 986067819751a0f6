/// Placements of whole modules in a line of stages, the form of pipelines that frameworks accept.
#pragma once
#include <vector>

#include "placers/whole_modules.h"

namespace baechi {

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
