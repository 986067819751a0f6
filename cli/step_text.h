/// Formats a simulated step as text and as JSON.
#pragma once
#include <nlohmann/json_fwd.hpp>

#include "sim/pipeline/pipeline.h"

namespace baechi {

/// The OOM report: "out of memory on gpu1 at 12.300 ms: op 'conv5': 1.20 GiB needed, of 8.00 GiB
/// only 0.80 GiB are free (live: weights 4.00 GiB, outputs 3.20 GiB)".
std::string sentence(const OutOfMemory& oom, const Problem& problem, const Placement& placement);

/// Step time and lower bound, then one line per device: busy and idle time, and peak memory by
/// kind. `reserve`: memory of each device beyond its limit; if given, with what is spare.
std::string step_table(const StepResult& step, const LowerBounds& bounds, const Problem& problem,
                       const Placement& placement, std::optional<Bytes> reserve = {});

/// The same; the step time is null if the step ran out of memory.
nlohmann::ordered_json step_json(const StepResult& step, const LowerBounds& bounds,
                                 const Problem& problem, const Placement& placement);

/// Bytes by kind; gradients and optimizer state are null if the graph counts them as weights.
nlohmann::ordered_json peak_json(const PeakMemory& peak);

/// The options, the time per sample or the OOM report, and one line per stage. `samples`: per
/// micro-batch, at least 1; 1 if the trace does not state its batch size.
std::string pipeline_table(const pipeline::PipelineResult& result,
                           const pipeline::PipelineOptions& options, const Cluster& cluster,
                           std::int64_t samples);
/// The same facts; simulated times are null if the pipeline ran out of memory.
nlohmann::ordered_json pipeline_json(const pipeline::PipelineResult& result,
                                     const pipeline::PipelineOptions& options,
                                     const Cluster& cluster, std::int64_t samples);

}  // namespace baechi
