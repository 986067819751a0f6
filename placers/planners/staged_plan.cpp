#include "placers/planners/staged_plan.h"

#include <cmath>
#include <numeric>

#include "placers/planners/stage_part.h"
#include "placers/planners/stages_program.h"
#include "sim/error.h"
#include "traces/format/json.h"
#include "traces/import/piper_file.h"

namespace baechi::planners {

PlannerInput PlannerInput::without_tensor_parallelism() const {
  PlannerInput only = *this;
  only.degrees.clear();
  for (PlannerNode& node : only.nodes) node.modes.clear();
  const auto one = std::ranges::find(degrees, 1);
  if (one == degrees.end()) return only;
  only.degrees = {1};
  for (const BundleId b : nodes.ids())
    only.nodes[b].modes = {nodes[b].modes[static_cast<std::size_t>(one - degrees.begin())]};
  return only;
}

PlannerInput PlannerInput::without_recomputation() const {
  PlannerInput only = *this;
  for (PlannerNode& node : only.nodes)
    for (auto& modes : node.modes) std::erase_if(modes, &PlannerMode::recomputes);
  return only;
}

std::int64_t StagedPlan::devices() const {
  return std::accumulate(stages.begin(), stages.end(), std::int64_t{0},
                         [](std::int64_t sum, const PlannedStage& s) { return sum + s.devices(); });
}

std::optional<PlannedStage> priced(const PlannerInput& input, std::vector<BundleId> nodes,
                                   std::int64_t tensor_parallel, std::int64_t data_parallel,
                                   std::int64_t in_flight, ModeChoice choice) {
  const auto at = std::ranges::find(input.degrees, tensor_parallel);
  if (at == input.degrees.end()) return std::nullopt;
  const auto degree = static_cast<std::size_t>(at - input.degrees.begin());
  IdVector<BundleId, char> inside(input.nodes.size(), 0);
  std::ranges::sort(nodes);
  for (const BundleId b : nodes) {
    if (input.nodes[b].modes[degree].empty()) return std::nullopt;
    inside[b] = 1;
  }
  ChosenModes chosen = choose_modes(input, nodes, degree, data_parallel, in_flight, choice, inside);
  if (!chosen.fits) return std::nullopt;
  PlannedStage stage{.nodes = std::move(nodes),
                     .modes = std::move(chosen.modes),
                     .tensor_parallel = tensor_parallel,
                     .data_parallel = data_parallel,
                     .in_flight = in_flight};
  const StageCost cost(input, data_parallel, inside);
  for (std::size_t i = 0; i < stage.nodes.size(); ++i) {
    const PlannerMode& mode = input.nodes[stage.nodes[i]].modes[degree][stage.modes[i]];
    stage.time += cost.time(stage.nodes[i], mode);
    stage.memory += mode.memory(in_flight);
  }
  return stage;
}

std::optional<std::string> mistake_in(const StagedPlan& plan, const PlannerInput& input) {
  IdVector<BundleId, std::size_t> stage_of(input.nodes.size(), plan.stages.size());
  std::int64_t replicas = 0;
  double slowest = 0.0;
  for (std::size_t s = plan.stages.size(); s-- > 0;) {
    const PlannedStage& stage = plan.stages[s];
    replicas += stage.data_parallel;
    for (const BundleId b : stage.nodes) {
      if (stage_of[b] != plan.stages.size())
        return fmt::format("node {} is in two stages", input.nodes[b].id);
      stage_of[b] = s;
    }
    if (input.micro_batches % stage.data_parallel != 0)
      return fmt::format("{} replicas do not divide {} micro-batches", stage.data_parallel,
                         input.micro_batches);
    const std::int64_t least = (replicas + stage.data_parallel - 1) / stage.data_parallel;
    if (stage.in_flight < least)
      return fmt::format("stage {} keeps {} micro-batches, not {}", s, least, stage.in_flight);
    if (stage.memory > input.memory * (1.0 + 1e-9))
      return fmt::format("stage {} needs {} bytes", s, stage.memory);
    slowest = std::max(slowest, stage.time);
  }
  for (const BundleId b : input.nodes.ids())
    if (stage_of[b] == plan.stages.size())
      return fmt::format("node {} is in no stage", input.nodes[b].id);
  for (const PlannerEdge& edge : input.edges)
    if (stage_of[edge.from] > stage_of[edge.to]) return "an edge leads against the pipeline";
  if (plan.devices() > input.devices) return fmt::format("{} devices are used", plan.devices());
  if (std::abs(slowest - plan.time_per_sample) > 1e-9 * slowest) return "another time per sample";
  return std::nullopt;
}

std::vector<std::int64_t> replica_counts(const PlannerInput& input) {
  std::vector<std::int64_t> counts;
  const std::int64_t most = std::min({input.devices, input.micro_batches, input.most_replicas});
  for (std::int64_t d = 1; d <= most; ++d)
    if (input.micro_batches % d == 0) counts.push_back(d);
  return counts;
}

std::vector<std::int64_t> first_devices(const StagedPlan& plan) {
  std::vector<std::int64_t> first;
  std::int64_t next = 0;
  for (const PlannedStage& stage : plan.stages) {
    first.push_back(next);
    next += stage.devices();
  }
  return first;
}

std::string staged_plan_text(const StagedPlan& plan) {
  std::string text = fmt::format("{} stage{} on {} devices:", plan.stages.size(),
                                 plan.stages.size() == 1 ? "" : "s", plan.devices());
  for (const PlannedStage& stage : plan.stages)
    text += fmt::format(" {} x ({} x {})", stage.nodes.size(), stage.data_parallel,
                        stage.tensor_parallel);
  return text + "; nodes x (replicas x tensor parallel)";
}

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
