#include "placers/planners/simulated_batch.h"
#include "placers/planners/stage_part.h"
#include "placers/planners/stages_program.h"

namespace baechi::planners {
namespace {

using Stages = std::vector<std::vector<BundleId>>;

bool is_transformer(const PlannerNode& node) { return node.name == "ParallelTransformerLayer"; }

/// The groups between two ends: `initial` leads to some of them, `final` has all other nodes.
struct Body {
  std::vector<BundleId> initial, groups, final;
};

Body body_of(const PlannerInput& input) {
  Body body;
  const std::vector<BundleId> line = plan_line(input);
  IdVector<BundleId, char> leads(input.nodes.size(), 0);
  for (auto b = line.rbegin(); b != line.rend(); ++b)
    for (const BundleId next : input.order.after(*b))
      if (leads[next] != 0 || is_transformer(input.nodes[next])) leads[*b] = 1;
  for (const BundleId b : line) {
    if (is_transformer(input.nodes[b]))
      body.groups.push_back(b);
    else
      (leads[b] != 0 ? body.initial : body.final).push_back(b);
  }
  return body;
}

/// `count` runs of `line`, the last of which have one more if it does not divide evenly.
Stages equal_runs(const std::vector<BundleId>& line, std::size_t count) {
  Stages stages;
  std::size_t begin = 0;
  for (std::size_t i = 0; i < count; ++i) {
    const std::size_t longer = i >= count - line.size() % count ? 1 : 0;
    const std::size_t end = begin + line.size() / count + longer;
    stages.emplace_back(line.begin() + static_cast<std::ptrdiff_t>(begin),
                        line.begin() + static_cast<std::ptrdiff_t>(end));
    begin = end;
  }
  return stages;
}

void append(std::vector<BundleId>& to, const std::vector<BundleId>& from) {
  to.insert(to.end(), from.begin(), from.end());
}

/// Either all nodes recompute or none does. A node with a single mode keeps it.
PlannerInput with_one_mode(const PlannerInput& input, bool recompute) {
  PlannerInput one = input;
  for (PlannerNode& node : one.nodes)
    for (auto& modes : node.modes) {
      const auto wanted = std::ranges::find(modes, recompute, &PlannerMode::recomputes);
      if (wanted != modes.end()) modes = {PlannerMode(*wanted)};
    }
  return one;
}

class EqualSplits {
 public:
  /// Calls `use` with each plan that fits and all of whose stages are faster than its last result.
  EqualSplits(const PlannerInput& input, std::function<double(StagedPlan)> use)
      : input_(input),
        plain_(with_one_mode(input, false)),
        again_(with_one_mode(input, true)),
        use_(std::move(use)) {}

  void attempt_all(EqualParts parts);

 private:
  /// Tries all data and tensor parallel degrees on these stages.
  void attempt(const Stages& stages) {
    const auto count = static_cast<std::int64_t>(stages.size());
    const auto& first = input_.nodes[BundleId{0}].modes;
    for (const std::int64_t d : replica_counts(input_)) {
      if (count * d > std::min(input_.devices, input_.micro_batches)) break;
      for (std::size_t t = 0; t < input_.degrees.size(); ++t) {
        if (first[t].empty() || count * d * input_.degrees[t] > input_.devices) continue;
        for (const PlannerInput* input : {&plain_, &again_}) attempt(*input, stages, d, t);
      }
    }
  }

  void attempt(const PlannerInput& input, const Stages& stages, std::int64_t d, std::size_t t) {
    StagedPlan plan;
    for (std::size_t s = 0; s < stages.size(); ++s) {
      const auto in_flight = static_cast<std::int64_t>(stages.size() - s);
      auto stage = priced(input, stages[s], input.degrees[t], d, in_flight, ModeChoice::greedy);
      if (!stage) return;
      plan.time_per_sample = std::max(plan.time_per_sample, stage->time);
      if (plan.time_per_sample >= limit_) return;
      plan.stages.push_back(std::move(*stage));
    }
    // Mode indices of the input, whose nodes may have two modes.
    for (PlannedStage& stage : plan.stages)
      for (std::size_t i = 0; i < stage.nodes.size(); ++i) {
        const BundleId b = stage.nodes[i];
        const PlannerMode& taken = input.nodes[b].modes[t].front();
        stage.modes[i] = static_cast<std::size_t>(
            std::ranges::find(input_.nodes[b].modes[t], taken.id, &PlannerMode::id) -
            input_.nodes[b].modes[t].begin());
      }
    limit_ = use_(std::move(plan));
  }

  const PlannerInput& input_;
  PlannerInput plain_, again_;
  std::function<double(StagedPlan)> use_;
  double limit_ = std::numeric_limits<double>::infinity();
};

void EqualSplits::attempt_all(EqualParts parts) {
  const auto most = static_cast<std::size_t>(input_.devices);
  if (parts == EqualParts::nodes) {
    const std::vector<BundleId> line = plan_line(input_);
    // More stages than nodes would leave some empty.
    for (std::size_t count = 1; count <= std::min(most, line.size()); ++count)
      attempt(equal_runs(line, count));
    return;
  }
  const Body body = body_of(input_);
  for (std::size_t count = 1; count <= std::min(most, body.groups.size()); ++count) {
    Stages stages = equal_runs(body.groups, count);
    Stages apart{body.initial};
    apart.insert(apart.end(), stages.begin(), stages.end());
    apart.push_back(body.final);
    append(stages.front(), body.initial);
    append(stages.back(), body.final);
    attempt(stages);
    if (apart.size() <= most) attempt(apart);
  }
}

}  // namespace

bool has_transformers(const PlannerInput& input) {
  return std::ranges::any_of(input.nodes, is_transformer);
}

std::optional<StagedPlan> best_equal_split(const PlannerInput& input, EqualParts parts) {
  std::optional<StagedPlan> best;
  EqualSplits(input, [&](StagedPlan plan) {
    best = std::move(plan);
    return best->time_per_sample;
  }).attempt_all(parts);
  return best;
}

std::optional<SimulatedSplit> best_simulated_split(const PlannerInput& input, EqualParts parts) {
  std::vector<std::pair<double, StagedPlan>>
      plans;  // with a lower bound on the time of their batch
  EqualSplits(input, [&](StagedPlan plan) {
    const double least = least_batch(plan, input);
    plans.emplace_back(least, std::move(plan));
    return std::numeric_limits<double>::infinity();
  }).attempt_all(parts);
  if (plans.empty()) return std::nullopt;
  std::ranges::stable_sort(plans, {}, &std::pair<double, StagedPlan>::first);
  SimulatedSplit best{.plan = {}, .fitting = plans.size()};
  for (const auto& [least, plan] : plans) {
    if (best.simulated > 0 && least >= best.batch) break;
    const double batch = simulated_batch(plan, input);
    if (best.simulated++ > 0 && batch >= best.batch) continue;
    best.plan = plan;
    best.batch = batch;
  }
  return best;
}

}  // namespace baechi::planners
