#include "placers/planners/stages_program.h"

#include <cmath>

#include "placers/planners/stage_part.h"
#include "sim/error.h"

namespace baechi::planners {
namespace {

using exact::IdealId, exact::StageTraversal;

class StagesProgram {
 public:
  StagesProgram(const PlannerInput& input, const Ideals& ideals, ModeChoice choice)
      : input_(input),
        ideals_(ideals),
        choice_(choice),
        replicas_(replica_counts(input)),
        most_replicas_(std::min(input.devices, input.micro_batches)),
        part_(input, choice),
        traversal_(ideals, input.nodes.size(), part_) {
    IdVector<BundleId, double> least(input.nodes.size(), no_time);
    for (const BundleId b : input.nodes.ids()) {
      for (std::size_t t = 0; t < input.degrees.size(); ++t)
        for (const PlannerMode& mode : input.nodes[b].modes[t])
          least[b] = std::min(least[b], mode.time * static_cast<double>(input.degrees[t]));
    }
    work_.assign(ideals.size(), 0.0);
    for (const IdealId i : ideals.ideals())
      if (!ideals.lower(i).empty())
        work_[i] = work_[ideals.lower(i)[0].ideal] + least[ideals.lower(i)[0].bundle];
  }

  double least_time() const { return work_[ideals_.all()] / static_cast<double>(input_.devices); }

  /// A plan whose stages all take less than `limit`; nothing if there is none.
  std::optional<StagedPlan> below(double limit) {
    if (!(work_[ideals_.all()] < no_time)) return std::nullopt;
    limit_ = limit;
    part_.set_limit(limit * static_cast<double>(input_.devices));
    front_.assign(ideals_.size(), {});
    front_[IdealId{0}].push_back({});
    here_.assign(static_cast<std::size_t>(most_replicas_) + 1, {});
    for (const IdealId i : ideals_.ideals())
      if (i != IdealId{0}) fill(i);
    const auto& last = front_[ideals_.all()];
    if (last.empty()) return std::nullopt;
    const auto best = std::ranges::min_element(last, {}, &State::time);
    return plan_of(ideals_.all(), *best);
  }

 private:
  /// The last stages of a pipeline, which together are an ideal.
  struct State {
    std::int64_t replicas =
        0;  ///< of all stages; more if the first stage keeps more micro-batches in flight
    std::int64_t devices = 0;
    double time = 0.0;  ///< of the slowest stage
    IdealId rest{};     ///< the ideal of the stages after the first, and the index of its state
    std::size_t rest_state = 0;
    std::size_t degree = 0;
    std::int64_t data_parallel = 0;
    std::int64_t in_flight = 0;
  };

  /// A lower bound on the devices that the nodes outside the ideal need below the limit.
  std::int64_t needed(IdealId i) const {
    const double work = (work_[ideals_.all()] - work_[i]) / limit_ * (1.0 - 1e-9);
    return static_cast<std::int64_t>(std::ceil(std::min(work, 1e9)));
  }

  void fill(IdealId i) {
    most_devices_ = input_.devices - needed(i);
    if (most_devices_ < 1) return;
    touched_.clear();
    traversal_.traverse(i, [&](IdealId rest) {
      if (!front_[rest].empty()) extend(rest);
      return false;
    });
    std::ranges::sort(touched_);
    std::int64_t fewest = std::numeric_limits<std::int64_t>::max();
    for (const std::size_t replicas : touched_) {
      State& state = here_[replicas];
      if (state.devices < fewest) {
        fewest = state.devices;
        front_[i].push_back(state);
      }
      state = {};
    }
  }

  /// Puts the current stage of the traversal before all states of `rest`.
  void extend(IdealId rest) {
    part_.begin_stage(traversal_.taken());
    const std::int64_t fewest =
        front_[rest].back().devices;  // states are sorted by decreasing devices
    for (std::size_t t = 0; t < input_.degrees.size(); ++t) {
      if (!part_.able(t)) continue;
      for (const std::int64_t d : replicas_) {
        if (fewest + d * input_.degrees[t] > most_devices_) break;
        const double fast = part_.fast_time(t, d);
        if (fast < limit_) extend(rest, t, d, fast);
      }
    }
  }

  void extend(IdealId rest, std::size_t degree, std::int64_t d, double fast) {
    for (std::size_t s = 0; s < front_[rest].size(); ++s) {
      const State& behind = front_[rest][s];
      State next{.devices = behind.devices + d * input_.degrees[degree],
                 .rest = rest,
                 .rest_state = s,
                 .degree = degree,
                 .data_parallel = d};
      std::int64_t in_flight = 1 + (behind.replicas + d - 1) / d;
      next.replicas = behind.replicas + d;
      for (; next.replicas <= most_replicas_; next.replicas = d * in_flight++ + 1) {
        const StagePart::Price price = part_.price(degree, d, in_flight, fast, limit_);
        if (price.hopeless && price.memory) return;  // later states have more replicas
        next.in_flight = in_flight;
        next.time = std::max(behind.time, price.time);
        if (price.time < limit_ && next.devices <= most_devices_) enter(next);
        if (price.time < limit_ || price.hopeless) break;
      }
    }
  }

  void enter(const State& state) {
    const auto at = static_cast<std::size_t>(state.replicas);
    State& here = here_[at];
    if (here.data_parallel == 0) touched_.push_back(at);
    if (here.data_parallel == 0 || state.devices < here.devices ||
        (state.devices == here.devices && state.time < here.time))
      here = state;
  }

  StagedPlan plan_of(IdealId i, State state) {
    StagedPlan plan;
    while (i != IdealId{0}) {
      std::vector<BundleId> nodes;
      traversal_.traverse(i, [&](IdealId rest) {
        if (rest == state.rest) nodes = traversal_.taken();
        return rest == state.rest;
      });
      auto stage = priced(input_, std::move(nodes), input_.degrees[state.degree],
                          state.data_parallel, state.in_flight, choice_);
      BAECHI_CHECK(stage.has_value(), "a planned stage does not fit");
      plan.time_per_sample = std::max(plan.time_per_sample, stage->time);
      plan.stages.push_back(std::move(*stage));
      i = state.rest;
      state = front_[i][state.rest_state];
    }
    return plan;
  }

  const PlannerInput& input_;
  const Ideals& ideals_;
  ModeChoice choice_;
  std::vector<std::int64_t> replicas_;
  std::int64_t most_replicas_;
  StagePart part_;
  StageTraversal<StagePart> traversal_;
  IdVector<IdealId, double> work_;  // lower bound on the device-seconds of its nodes
  double limit_ = 0.0;
  std::int64_t most_devices_ = 0;                // for the ideal being filled
  IdVector<IdealId, std::vector<State>> front_;  // Pareto front: more replicas, fewer devices
  std::vector<State> here_;                      // [replicas], of the ideal being filled
  std::vector<std::size_t> touched_;             // those of here_ that are set
};

/// Whether a stage of this node alone could fit.
bool has_room(const PlannerInput& input, const PlannerNode& node) {
  for (const auto& modes : node.modes)
    for (const PlannerMode& mode : modes)
      if (mode.memory(1) <= input.memory) return true;
  return false;
}

}  // namespace

std::optional<StagedPlan> best_plan(const PlannerInput& input, const Ideals& ideals,
                                    ModeChoice choice, double below) {
  constexpr double close = 1e-8, step = 1e-3;
  StagesProgram program(input, ideals, choice);
  std::optional<StagedPlan> best = program.below(below);
  if (!best) return best;
  double low = program.least_time();
  // First a limit just below the best so far, to prove it optimal; then ever larger steps down as
  // long as they lead to plans, and half of the remaining distance after one that does not.
  double down = close;
  while (low < best->time_per_sample * (1.0 - close)) {
    const double high = best->time_per_sample;
    const double limit = std::max(high * (1.0 - down), low + (high - low) * 0.5);
    auto better = program.below(limit);
    if (better && better->time_per_sample < high) {
      best = std::move(better);
      down = std::min(0.5, std::max(down * 30.0, step));
    } else {
      low = limit;
      down = close;
    }
  }
  return best;
}

std::vector<BundleId> plan_line(const PlannerInput& input) {
  IdVector<BundleId, std::size_t> missing(input.nodes.size(), 0);
  std::vector<BundleId> ready, line;
  for (const BundleId b : input.nodes.ids()) {
    missing[b] = input.in[b].size();
    if (missing[b] == 0) ready.push_back(b);
  }
  while (!ready.empty()) {
    line.push_back(ready.back());
    ready.pop_back();
    for (const std::uint32_t e : input.out[line.back()])
      if (--missing[input.edges[e].to] == 0) ready.push_back(input.edges[e].to);
  }
  return line;
}

FoundStages search_plans(const PlannerInput& input, ModeChoice choice, std::size_t most) {
  FoundStages search;
  std::vector<BundleId> line = plan_line(input);
  std::ranges::reverse(line);
  search.plan =
      best_plan(input, Ideals::chain(line), choice, std::numeric_limits<double>::infinity());
  const auto ideals = Ideals::enumerate(input.order.reversed(), most);
  if (!ideals) return search;
  search.ideals = ideals->size();
  if (ideals->size() == line.size() + 1) return search;  // there is no other linear order
  const double below = search.plan ? search.plan->time_per_sample * (1.0 - 1e-9)
                                   : std::numeric_limits<double>::infinity();
  if (auto better = best_plan(input, *ideals, choice, below)) search.plan = std::move(better);
  return search;
}

std::string why_no_plan(const PlannerInput& input) {
  for (const PlannerNode& node : input.nodes) {
    if (std::ranges::all_of(node.modes, [](const auto& modes) { return modes.empty(); }))
      return fmt::format("node {} ('{}') has no mode that is allowed", node.id, node.name);
    if (!has_room(input, node))
      return fmt::format("node {} ('{}') fits in no mode in {:.0f} bytes", node.id, node.name,
                         input.memory);
  }
  return fmt::format("no plan for {} devices of {:.0f} bytes", input.devices, input.memory);
}

}  // namespace baechi::planners
