/// The stages of a placement whose placer gave stages several devices.
#pragma once
#include <cstdint>
#include <vector>

#include "placers/exact/pipelines.h"

namespace baechi::exact {

struct ReplicatedStage {
  std::vector<OpId> ops;          ///< ascending
  std::vector<DeviceId> devices;  ///< each runs all of the ops; the placement has the first
  double time_us = 0.0;           ///< of a device, per sample
  Bytes weights{};                ///< of each device
};

/// Writes the stages into the facts and the detail of the placement on their first devices: the
/// facts of Replicas (sim/objective/replicas.h); of stage N `stage_N_us`; `stages`, `devices`,
/// `time_per_sample_us`, and `max_load_us`, which is the same.
void record_stages(const Pipeline& pipeline, std::int64_t micro_batches, Placement& placement);

/// The stages that record_stages() wrote, in the order of the pipeline. Empty if it wrote none, or
/// if an op was moved since and is not on the first device of a stage.
std::vector<ReplicatedStage> replicated_stages(const Problem& problem, const Placement& placement);

}  // namespace baechi::exact
