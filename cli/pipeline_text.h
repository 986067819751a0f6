/// Formats a simulated pipeline as a text table and as JSON.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/pipeline/pipeline.h"

namespace baechi {

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
