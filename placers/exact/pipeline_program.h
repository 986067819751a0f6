/// The best pipeline by dynamic programming over ideals.
#pragma once
#include <optional>
#include <vector>

#include "placers/exact/bundles.h"
#include "placers/exact/ideals.h"
#include "sim/objective/replicas.h"

namespace baechi::exact {

/// A part of a pipeline, and its replicas.
struct PipelineStage {
  std::vector<DeviceId> devices;  ///< all of one class; its bundles are placed on the first
  Duration load{};                ///< of each of them, per sample
};

struct BundlePipeline {
  Duration load{};                        ///< of the device with most
  IdVector<BundleId, DeviceId> device{};  ///< [num_bundles]
  std::vector<PipelineStage> stages{};    ///< in the order of the pipeline
};

/// The cut of `bundles` along a chain of `ideals`, a device for each part, whose largest load is
/// least and below `bound`; nothing if there is none. Each device runs at most one part; an
/// accelerator's weights fit in its memory. With `replication`, a part may run on several devices
/// of one class.
///
/// least[i][devices used] = over ideals j in i, and the class and number of the devices that take i
/// \ j, the least of max(least[j][without these devices], load of i \ j there). The parts i \ j
/// are traversed depth-first, removing one bundle at a time. The number of pins in each net keeps
/// their loads up to date; nothing is stored for a pair of ideals. The traversal backtracks where
/// no class of device could take the part. An ideal is skipped if the rest would take the remaining
/// devices beyond `bound`, even divided at will and with free transfers. Throws InputError if the
/// table would need more than 160 MB: too many classes of devices.
/// Source: Tarnawski et al., NeurIPS 2020; the traversal, the bounds and the replicas are ours.
std::optional<BundlePipeline> best_pipeline(const Bundles& bundles,
                                            const std::vector<DeviceClass>& classes,
                                            const Ideals& ideals, Duration bound,
                                            const Replication& replication = {});

}  // namespace baechi::exact
