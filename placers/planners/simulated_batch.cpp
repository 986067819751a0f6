#include "placers/planners/simulated_batch.h"

#include <cmath>

#include "placers/planners/stage_part.h"
#include "sim/engine/simulation.h"

namespace baechi::planners {
namespace {

/// The work of one device of a stage.
struct StageWork {
  double time = 0.0;                      // per micro-batch
  double exchange = 0.0;                  // per batch
  double moves = 0.0;                     // transfers at the ends of the stage
  std::map<std::size_t, double> sends{};  // bytes by later stage
};

Duration seconds(double time) { return Duration{std::llround(time * 1e9)}; }

std::vector<StageWork> work_of(const StagedPlan& plan, const PlannerInput& input) {
  IdVector<BundleId, std::size_t> stage_of(input.nodes.size(), 0);
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (const BundleId b : plan.stages[s].nodes) stage_of[b] = s;
  std::vector<StageWork> all(plan.stages.size());
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const PlannedStage& stage = plan.stages[s];
    const auto degree = static_cast<std::size_t>(
        std::ranges::find(input.degrees, stage.tensor_parallel) - input.degrees.begin());
    const auto d = static_cast<double>(stage.data_parallel);
    for (std::size_t n = 0; n < stage.nodes.size(); ++n) {
      const BundleId b = stage.nodes[n];
      const PlannerMode& mode = input.nodes[b].modes[degree][stage.modes[n]];
      double traffic = 0.0;
      for (std::size_t i = 0; i < input.in[b].size(); ++i)
        if (const PlannerEdge& edge = input.edges[input.in[b][i]]; stage_of[edge.from] != s) {
          traffic += mode.in[i];
          all[s].moves += 2.0 * edge.bytes / input.bandwidth;
        }
      for (std::size_t i = 0; i < input.out[b].size(); ++i) {
        const PlannerEdge& edge = input.edges[input.out[b][i]];
        if (stage_of[edge.to] == s) continue;
        traffic += mode.out[i];
        all[s].moves += 2.0 * edge.bytes / input.bandwidth;
        all[s].sends[stage_of[edge.to]] += 2.0 * edge.bytes;
      }
      all[s].time += mode.time + 2.0 * traffic / input.bandwidth;
      all[s].exchange += 4.0 * (d - 1.0) / d * mode.weights / input.bandwidth;
    }
  }
  return all;
}

/// Records when the last stage ends each micro-batch.
class Ends final : public StepObserver {
 public:
  explicit Ends(const IdVector<OpId, char>& last) : last_(last) {}
  void on_op(OpId v, DeviceId /*d*/, TimePoint /*start*/, TimePoint end) override {
    if (last_[v] != 0) ends_.push_back(end);
  }
  std::vector<TimePoint> sorted() && {
    std::ranges::sort(ends_);
    return std::move(ends_);
  }

 private:
  const IdVector<OpId, char>& last_;
  std::vector<TimePoint> ends_;
};

/// The batch as a placed graph.
class Batch {
 public:
  Batch(const StagedPlan& plan, const PlannerInput& input, std::int64_t micro_batches,
        StageTransfers transfers)
      : overlap_(transfers != StageTransfers::together) {
    const bool apart = transfers == StageTransfers::apart;
    const std::vector<StageWork> work = work_of(plan, input);
    std::vector<std::uint32_t> first;  // device of each stage
    std::uint32_t devices = 0;
    for (const PlannedStage& stage : plan.stages) {
      first.push_back(devices);
      devices += static_cast<std::uint32_t>(stage.data_parallel);
    }
    OpGraphBuilder builder;
    IdVector<OpId, DeviceId> device;
    IdVector<OpId, char> last;
    std::vector<OpId> latest(devices);
    const auto add = [&](const std::string& name, double time, std::uint32_t at, bool end) {
      const OpId v = builder.add_op({.name = name, .compute = seconds(time)});
      device.push_back(DeviceId{at});
      last.push_back(end ? 1 : 0);
      latest[at] = v;
      return v;
    };
    for (std::int64_t m = 0; m < micro_batches; ++m) {
      std::vector<OpId> ops;
      for (std::size_t s = 0; s < work.size(); ++s) {
        const auto replica = static_cast<std::uint32_t>(m % plan.stages[s].data_parallel);
        ops.push_back(add(fmt::format("m{}s{}", m, s), work[s].time + (apart ? work[s].moves : 0.0),
                          first[s] + replica, s + 1 == work.size()));
      }
      for (std::size_t s = 0; s < work.size(); ++s)
        for (const auto& [to, bytes] : work[s].sends)
          builder.add_edge(builder.add_tensor(ops[s], {apart ? 0 : std::llround(bytes)}), ops[to]);
    }
    for (std::size_t s = 0; s < work.size(); ++s)
      for (std::uint32_t r = 0; r < plan.stages[s].data_parallel; ++r) {
        if (work[s].exchange <= 0.0) break;
        const OpId before = latest[first[s] + r];
        const OpId v =
            add(fmt::format("exchange{}r{}", s, r), work[s].exchange, first[s] + r, false);
        builder.add_control(before, v);
      }
    IdVector<OpId, OpId> renumbered;
    graph_ = std::move(builder).build(&renumbered);
    placement_.device = IdVector<OpId, DeviceId>(graph_.num_ops());
    last_ = IdVector<OpId, char>(graph_.num_ops());
    for (const OpId v : renumbered.ids()) {
      placement_.device[renumbered[v]] = device[v];
      last_[renumbered[v]] = last[v];
    }
    cluster_ = Cluster::uniform(devices, unlimited_memory,
                                {.bandwidth = {input.bandwidth}, .latency = {}});
  }

  /// Makespan, and seconds per sample at steady state.
  std::pair<double, double> run(std::int64_t turn) const {
    const ProfiledCosts costs(graph_, cluster_);
    const Problem problem{graph_,
                          cluster_,
                          costs,
                          {.overlap = overlap_, .enforce_memory = false, .count_memory = false}};
    Ends ends(last_);
    std::vector<StepObserver*> observers{&ends};
    const StepResult result = baechi::simulate(problem, placement_, observers);
    const std::vector<TimePoint> all = std::move(ends).sorted();
    // Measures whole rounds of all replicas, in the middle half of the batch.
    const auto step = static_cast<std::size_t>(turn);
    const std::size_t turns = all.size() / step;
    double steady = 0.0;
    if (turns >= 8) {
      const std::size_t from = turns / 4 * step, to = turns * 3 / 4 * step;
      steady = static_cast<double>((all[to] - all[from]).count()) * 1e-9 /
               static_cast<double>(to - from);
    }
    return {static_cast<double>(result.makespan.count()) * 1e-9, steady};
  }

 private:
  bool overlap_;
  OpGraph graph_;
  IdVector<OpId, char> last_;
  Placement placement_;
  Cluster cluster_;
};

/// The fraction of the slowest stage's time per sample that its exchange of gradients takes.
double exchange_share(const StagedPlan& plan, const PlannerInput& input) {
  const std::vector<StageWork> work = work_of(plan, input);
  double share = 0.0;
  for (std::size_t s = 0; s < work.size(); ++s)
    if (plan.stages[s].time >= plan.time_per_sample)
      share = work[s].exchange / static_cast<double>(input.micro_batches);
  return share;
}

std::string difference(const StagedPlan& plan, const PlannerInput& input,
                       const SimulatedBatch& run) {
  const auto above = [&](StageTransfers t) {
    const double ratio = run.at(t) / plan.time_per_sample - 1.0;
    return fmt::format("{:.2f} % {}", std::abs(ratio) * 100.0, ratio < 0.0 ? "below" : "above");
  };
  const double exchange = exchange_share(plan, input) / plan.time_per_sample;
  const double rest = run.at(StageTransfers::apart) / plan.time_per_sample - 1.0 + exchange;
  std::string text = fmt::format("{} the formula", above(StageTransfers::apart));
  if (exchange >= 1e-4)
    text += fmt::format(
        ", of which {:.2f} % is the exchange of gradients, which comes at the end of a batch",
        exchange * 100.0);
  if (std::abs(rest) >= 1e-3)
    text +=
        fmt::format(", and {:.2f} % that replicas take whole micro-batches in turn", rest * 100.0);
  return text +
         fmt::format("; {} if a transfer holds both of its ends, {} if devices compute meanwhile",
                     above(StageTransfers::together), above(StageTransfers::overlap));
}

}  // namespace

double simulated_batch(const StagedPlan& plan, const PlannerInput& input) {
  return Batch(plan, input, input.micro_batches, StageTransfers::overlap).run(1).first;
}

double least_batch(const StagedPlan& plan, const PlannerInput& input) {
  const std::vector<StageWork> work = work_of(plan, input);
  const std::size_t count = work.size();
  std::vector<double> before(count, 0.0), behind(count, 0.0);
  for (std::size_t s = 0; s < count; ++s)
    for (const auto& [to, bytes] : work[s].sends)
      before[to] = std::max(before[to], before[s] + work[s].time);
  double least = 0.0;
  for (std::size_t s = count; s-- > 0;) {
    for (const auto& [to, bytes] : work[s].sends)
      behind[s] = std::max(behind[s], behind[to] + work[to].time);
    const std::int64_t whole = input.micro_batches / plan.stages[s].data_parallel;
    const auto turns = static_cast<double>(whole);
    least =
        std::max(least, before[s] + turns * work[s].time + std::max(behind[s], work[s].exchange));
  }
  return least * (1.0 - 1e-6);  // the engine rounds to whole nanoseconds
}

SimulatedBatch simulate(const StagedPlan& plan, const PlannerInput& input) {
  constexpr std::int64_t most_ops = 200'000;
  std::int64_t turn = 1;
  for (const PlannedStage& stage : plan.stages) turn = std::max(turn, stage.data_parallel);
  const auto stages = static_cast<std::int64_t>(plan.stages.size());
  SimulatedBatch run{.micro_batches =
                         std::clamp(most_ops / stages, std::int64_t{1}, input.micro_batches)};
  for (const auto t : {StageTransfers::apart, StageTransfers::together, StageTransfers::overlap}) {
    const auto [batch, steady] = Batch(plan, input, run.micro_batches, t).run(turn);
    if (t == StageTransfers::apart) run.seconds = batch;
    run.per_sample[static_cast<std::size_t>(t)] = steady;
  }
  if (run.at(StageTransfers::apart) > 0.0) run.difference = difference(plan, input, run);
  return run;
}

PlannerAnswer run_planner(const Planner& planner, PlannerInput input) {
  PlannerAnswer answer;
  answer.input = planner.prepared(std::move(input));
  const auto start = std::chrono::steady_clock::now();
  try {
    answer.planned = planner.plan(answer.input);
    answer.detail = answer.planned->detail;
  } catch (const InfeasibleError& infeasible) {
    answer.detail = infeasible.what();
  }
  answer.planning = std::chrono::steady_clock::now() - start;
  if (!answer.planned) return answer;
  const auto wrong = mistake_in(answer.planned->plan, answer.input);
  BAECHI_CHECK(!wrong, "a plan with a mistake: {}", wrong.value_or(""));
  return answer;
}

std::vector<std::string> recomputed(const PlannerInput& input, const PlannedStage& stage) {
  const auto degree = static_cast<std::size_t>(
      std::ranges::find(input.degrees, stage.tensor_parallel) - input.degrees.begin());
  std::vector<std::string> ops;
  for (std::size_t n = 0; n < stage.nodes.size(); ++n) {
    const PlannerNode& node = input.nodes[stage.nodes[n]];
    if (node.modes[degree][stage.modes[n]].recomputes()) ops.push_back(node.op);
  }
  return ops;
}

}  // namespace baechi::planners
