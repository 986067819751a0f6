#include "placers/exact/replicated_stages.h"

#include <fmt/format.h>

#include <algorithm>

#include "sim/objective/max_load.h"

namespace baechi::exact {
namespace {

/// `count` devices of one class from `first` on; fewer if there are fewer.
std::vector<DeviceId> devices_from(const std::vector<DeviceClass>& classes, DeviceId first,
                                   std::size_t count) {
  for (const DeviceClass& cls : classes) {
    const auto at = std::ranges::find(cls.devices, first);
    if (at == cls.devices.end()) continue;
    const auto left = static_cast<std::size_t>(cls.devices.end() - at);
    return {at, at + static_cast<std::ptrdiff_t>(std::min(left, count))};
  }
  return {};
}

}  // namespace

void write_stages(const Pipeline& pipeline, std::map<std::string, double>& facts) {
  std::size_t devices = 0;
  for (std::size_t n = 0; n < pipeline.stages.size(); ++n) {
    const PipelineStage& stage = pipeline.stages[n];
    facts[fmt::format("stage_{}_first", n)] = static_cast<double>(index(stage.devices.front()));
    facts[fmt::format("stage_{}_devices", n)] = static_cast<double>(stage.devices.size());
    facts[fmt::format("stage_{}_us", n)] = to_us(stage.load);
    devices += stage.devices.size();
  }
  facts["stages"] = static_cast<double>(pipeline.stages.size());
  facts["devices"] = static_cast<double>(devices);
  facts["time_per_sample_us"] = to_us(pipeline.load);
}

void tell_stages(const Pipeline& pipeline, const Problem& problem, Placement& placement) {
  write_stages(pipeline, placement.facts);
  Duration alone{};
  for (const DeviceLoad& load : device_loads(problem, placement))
    alone = std::max(alone, load.total());
  placement.facts["max_load_us"] = to_us(alone);
  std::string words;
  for (const PipelineStage& stage : pipeline.stages)
    words += fmt::format("{}{}", words.empty() ? "" : " + ", stage.devices.size());
  placement.detail += fmt::format(
      "; {} stage{} on {} devices: {} per sample; without replicas, each stage on its first "
      "device, this placement's max_load is {}",
      pipeline.stages.size(), pipeline.stages.size() == 1 ? "" : "s", words, to_text(pipeline.load),
      to_text(alone));
}

std::vector<ReplicatedStage> replicated_stages(const Problem& problem, const Placement& placement) {
  const std::vector<DeviceClass> classes = device_classes(problem);
  std::vector<ReplicatedStage> stages;
  IdVector<DeviceId, std::size_t> stage_of(problem.cluster.num_devices(), ~std::size_t{0});
  while (true) {
    const auto fact = [&](std::string_view of) {
      const auto found = placement.facts.find(fmt::format("stage_{}_{}", stages.size(), of));
      return found == placement.facts.end() ? -1.0 : found->second;
    };
    const double first = fact("first"), devices = fact("devices");
    if (first < 0.0 || devices < 1.0) break;
    const DeviceId d{static_cast<std::uint32_t>(first)};
    if (index(d) >= stage_of.size()) return {};
    stage_of[d] = stages.size();
    stages.push_back({.ops = {},
                      .devices = devices_from(classes, d, static_cast<std::size_t>(devices)),
                      .time_us = fact("us")});
  }
  for (const OpId v : problem.graph.ops()) {
    const std::size_t s = stage_of[placement.device[v]];
    if (s >= stages.size()) return {};
    stages[s].ops.push_back(v);
    stages[s].weights += problem.graph.op(v).persistent;
  }
  return stages;
}

}  // namespace baechi::exact
