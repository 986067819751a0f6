#include "placers/exact/replicated_stages.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/error.h"

namespace baechi::exact {

void record_stages(const Pipeline& pipeline, std::int64_t micro_batches, Placement& placement) {
  Replicas replicas{.parts = {}, .micro_batches = micro_batches};
  std::size_t devices = 0;
  std::string words;
  for (std::size_t n = 0; n < pipeline.stages.size(); ++n) {
    const PipelineStage& stage = pipeline.stages[n];
    replicas.parts.push_back(stage.devices);
    placement.facts[fmt::format("stage_{}_us", n)] = to_us(stage.load);
    words += fmt::format("{}{}", words.empty() ? "" : " + ", stage.devices.size());
    devices += stage.devices.size();
  }
  write_replicas(replicas, placement.facts);
  placement.facts["stages"] = static_cast<double>(pipeline.stages.size());
  placement.facts["devices"] = static_cast<double>(devices);
  placement.facts["time_per_sample_us"] = placement.facts["max_load_us"] = to_us(pipeline.load);
  placement.detail += fmt::format(
      "; {} stage{} on {} devices: {} per sample; the engine knows no replicas: a simulated step "
      "has each stage on its first device alone",
      pipeline.stages.size(), pipeline.stages.size() == 1 ? "" : "s", words,
      to_text(pipeline.load));
}

std::vector<ReplicatedStage> replicated_stages(const Problem& problem, const Placement& placement) {
  std::vector<ReplicatedStage> stages;
  IdVector<DeviceId, std::size_t> stage_of(problem.cluster.num_devices());
  try {
    for (auto& devices : replicas_of(problem, device_classes(problem), placement).parts) {
      const auto time = placement.facts.find(fmt::format("stage_{}_us", stages.size()));
      stage_of[devices.front()] = stages.size();
      stages.push_back({.ops = {},
                        .devices = std::move(devices),
                        .time_us = time == placement.facts.end() ? 0.0 : time->second});
    }
  } catch (const InputError&) {  // an op was moved
    return {};
  }
  if (stages.empty()) return {};
  for (const OpId v : problem.graph.ops()) {
    ReplicatedStage& stage = stages[stage_of[placement.device[v]]];
    stage.ops.push_back(v);
    stage.weights += problem.graph.op(v).persistent;
  }
  return stages;
}

}  // namespace baechi::exact
