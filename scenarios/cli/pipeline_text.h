/// What a simulated pipeline was like, for people and for programs.
#pragma once
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "sim/pipeline/pipeline.h"

namespace baechi {

std::string pipeline_table(const PipelineResult& result, const PipelineOptions& options,
                           const Cluster& cluster);
nlohmann::ordered_json pipeline_json(const PipelineResult& result, const PipelineOptions& options,
                                     const Cluster& cluster);

}  // namespace baechi
