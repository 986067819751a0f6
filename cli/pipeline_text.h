/// Prints a simulated pipeline as a table for people and as JSON for programs.
#pragma once
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/pipeline/pipeline.h"

namespace baechi {

/// The options, the verdict or the time per sample, and one line per stage. `samples`: of a
/// micro-batch, 1 or more; a micro-batch of a trace that does not state its batch is one sample.
std::string pipeline_table(const pipeline::PipelineResult& result,
                           const pipeline::PipelineOptions& options, const Cluster& cluster,
                           std::int64_t samples);
/// The same facts; simulated times are null if the pipeline ran out of memory.
nlohmann::ordered_json pipeline_json(const pipeline::PipelineResult& result,
                                     const pipeline::PipelineOptions& options,
                                     const Cluster& cluster, std::int64_t samples);

}  // namespace baechi
