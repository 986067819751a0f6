/// The stages of a placement whose placer gave stages several devices.
#pragma once
#include <vector>

#include "placers/exact/pipelines.h"

namespace baechi::exact {

struct ReplicatedStage {
  std::vector<OpId> ops;          ///< ascending
  std::vector<DeviceId> devices;  ///< each runs all of them; the placement has the first
  double time_us = 0.0;           ///< of a device, per sample
  Bytes weights{};                ///< of each device
};

/// Writes the stages among `facts`: of stage N the facts `stage_N_first` (the number of its first
/// device), `stage_N_devices` and `stage_N_us`; and `stages`, `devices`, `time_per_sample_us`.
void write_stages(const Pipeline& pipeline, std::map<std::string, double>& facts);

/// Writes the stages among the facts and the detail of the placement that has their first devices,
/// and as fact `max_load_us` its largest load, where each stage runs on its first device alone.
void tell_stages(const Pipeline& pipeline, const Problem& problem, Placement& placement);

/// What write_stages() wrote, in the order of the pipeline; empty if nothing was, or if an op is
/// not on the first device of a stage, as it was moved since.
std::vector<ReplicatedStage> replicated_stages(const Problem& problem, const Placement& placement);

}  // namespace baechi::exact
