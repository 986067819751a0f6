/// Prints a simulated pipeline as a table for people and as JSON for programs.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/pipeline/pipeline.h"

namespace baechi {

/// The options, the verdict or the times per micro-batch, and one line per stage. `samples`: of a
/// micro-batch, 0 if unknown.
std::string pipeline_table(const pipeline::PipelineResult& result,
                           const pipeline::PipelineOptions& options, const Cluster& cluster,
                           std::int64_t samples);
/// The same facts; simulated times are null if the pipeline ran out of memory.
nlohmann::ordered_json pipeline_json(const pipeline::PipelineResult& result,
                                     const pipeline::PipelineOptions& options,
                                     const Cluster& cluster, std::int64_t samples);

}  // namespace baechi
