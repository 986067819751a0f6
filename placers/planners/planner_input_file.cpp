#include "placers/planners/planner_input_file.h"

#include <set>

#include "placers/planners/stages_program.h"
#include "sim/error.h"
#include "traces/format/compressed_file.h"
#include "traces/format/json.h"
#include "traces/import/piper_file.h"

namespace baechi::planners {
namespace {

PlannerMode plan_mode(PiperMode mode) {
  return {.id = std::move(mode.id),
          .time = mode.time,
          .weights = mode.weights,
          .per_batch = mode.per_batch,
          .stays = mode.stays,
          .in = std::move(mode.in),
          .out = std::move(mode.out)};
}

PlannerInput plan_input(PiperFile file) {
  PlannerInput input;
  input.devices = file.devices;
  input.memory = file.memory;
  input.bandwidth = file.bandwidth;
  input.micro_batches = file.micro_batches;
  std::vector<std::pair<BundleId, BundleId>> pairs;
  for (const PiperEdge& edge : file.edges) {
    pairs.emplace_back(static_cast<BundleId>(edge.from), static_cast<BundleId>(edge.to));
    input.edges.push_back({pairs.back().first, pairs.back().second, edge.bytes});
  }
  std::ranges::sort(pairs);
  input.order = BundleOrder(file.nodes.size(), pairs);
  std::set<std::int64_t> degrees;
  for (const PiperNode& node : file.nodes)
    for (const auto& [degree, modes] : node.modes) degrees.insert(degree);
  input.degrees.assign(degrees.begin(), degrees.end());
  for (PiperNode& read : file.nodes) {
    PlannerNode node;
    node.id = read.id;
    node.name = std::move(read.name);
    node.op = std::move(read.op);
    for (const std::int64_t degree : input.degrees) {
      auto& modes = node.modes.emplace_back();
      if (const auto it = read.modes.find(degree); it != read.modes.end())
        for (PiperMode& mode : it->second) modes.push_back(plan_mode(std::move(mode)));
    }
    input.nodes.push_back(std::move(node));
    input.in.push_back({read.in.begin(), read.in.end()});
    input.out.push_back({read.out.begin(), read.out.end()});
  }
  return input;
}

}  // namespace

PlannerInput read_planner_input(TextFile& file) {
  const std::string text = file.rest();
  JsonFile json(file.path(), text);
  PlannerInput input = plan_input(read_piper_file(json));
  if (plan_line(input).size() != input.nodes.size())
    json.mistake(std::size_t{0}, "the edges form a cycle");
  json.finish();
  return input;
}

PlannerInput read_planner_input(const std::string& path) {
  TextFile file(path);
  return read_planner_input(file);
}

}  // namespace baechi::planners
