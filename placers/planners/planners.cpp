#include <fmt/format.h>

#include <algorithm>

#include "placers/exact/blocks.h"
#include "placers/planners/equal_split.h"
#include "placers/planners/plan_file.h"
#include "placers/planners/plan_program.h"
#include "placers/planners/plan_simulation.h"
#include "placers/planners/planner.h"
#include "sim/error.h"

namespace baechi::exact {
namespace {

/// The options that all planners have.
class PlannerOptions {
 public:
  explicit PlannerOptions(Options& o)
      : file_(o.path("file",
                     "input with times per degree of tensor parallelism, as Piper's program reads "
                     "it; 'baechi place' takes the graph's file")),
        micro_batches_(o.get("micro_batches", std::int64_t{0},
                             "micro-batches in a batch; 0: as the file says", 0, 10'000'000)),
        tensor_parallel_(o.get("tensor_parallel", true,
                               "stages may split their tensors; else only degree 1 is used")) {
    if (file_.empty()) o.mistake("file", "is missing, such as 'file=bert32a100.json'");
  }

  const std::string& file() const { return file_; }

  PlanInput prepared(PlanInput input) const {
    if (micro_batches_ > 0) input.micro_batches = micro_batches_;
    return tensor_parallel_ ? input : input.without_tensor_parallelism();
  }

 private:
  std::string file_;
  std::int64_t micro_batches_;
  bool tensor_parallel_;
};

/// Stages of any size, replicas, degrees and modes: the best of all that are contiguous.
/// Source: Tarnawski, Narayanan, Phanishayee, "Piper", NeurIPS 2021.
class Piper final : public Planner {
 public:
  explicit Piper(Options& o)
      : options_(o),
        choice_(o.get("modes", {"greedy", "exact"},
                      "which nodes recompute: as the authors' program chooses, or the choice of "
                      "least time that fits") == "greedy"
                    ? ModeChoice::greedy
                    : ModeChoice::exact),
        data_parallel_(o.get("data_parallel", true, "stages may have replicas")),
        recompute_(o.get("recompute", true, "nodes may recompute activations")),
        max_ideals_(static_cast<std::size_t>(
            o.get("max_ideals", std::int64_t{40'000},
                  "of more ideals, only a line of all nodes is searched", 1, 10'000'000))) {}

  const std::string& file() const override { return options_.file(); }
  PlanInput prepared(PlanInput input) const override {
    input = options_.prepared(std::move(input));
    input.most_replicas = data_parallel_ ? PlanInput::any : 1;
    return recompute_ ? input : input.without_recomputation();
  }

  Planned plan(const PlanInput& input) const override {
    PlanSearch found = search_plans(input, choice_, max_ideals_);
    if (!found.plan) throw InfeasibleError("piper: " + why_no_plan(input));
    Planned planned{.plan = std::move(*found.plan)};
    planned.facts["ideals"] = static_cast<double>(found.ideals);
    if (found.ideals == 0)
      planned.detail =
          fmt::format("more than {} ideals: only a line of all nodes was searched", max_ideals_);
    return planned;
  }

 private:
  PlannerOptions options_;
  ModeChoice choice_;
  bool data_parallel_, recompute_;
  std::size_t max_ideals_;
};

/// Equal stages with equal degrees, all recomputed or none.
/// Source: Narayanan et al., "PipeDream-2BW", ICML 2021, as Piper's program renders it.
class PipeDream2bw final : public Planner {
 public:
  explicit PipeDream2bw(Options& o)
      : options_(o),
        parts_(o.get("stages", {"auto", "transformers", "nodes"},
                     "of equally many transformer layers, or of equally many nodes; auto: of "
                     "transformer layers if there are any")),
        simulate_(o.get("simulate", {"nothing", "plan", "all"},
                        "batches in the engine: of the plan that the formula finds fastest; or of "
                        "all, and the fastest is taken. The fact simulated_per_sample_us has it")) {
  }

  const std::string& file() const override { return options_.file(); }
  PlanInput prepared(PlanInput input) const override { return options_.prepared(std::move(input)); }

  Planned plan(const PlanInput& input) const override {
    if (parts_ == "transformers" && !has_transformers(input))
      throw InputError("pipedream_2bw: no node is called 'ParallelTransformerLayer'");
    const bool nodes = parts_ == "nodes" || !has_transformers(input);
    const EqualParts parts = nodes ? EqualParts::nodes : EqualParts::transformers;
    if (simulate_ == "all") {
      if (auto found = best_simulated_split(input, parts)) {
        Planned planned = with_batch(std::move(found->plan), found->batch, input);
        planned.facts["simulated_plans"] = static_cast<double>(found->simulated);
        planned.facts["fitting_plans"] = static_cast<double>(found->fitting);
        return planned;
      }
    } else if (auto plan = best_equal_split(input, parts)) {
      if (simulate_ == "nothing") return {.plan = std::move(*plan)};
      const double batch = simulated_batch(*plan, input);
      return with_batch(std::move(*plan), batch, input);
    }
    throw InfeasibleError(
        fmt::format("pipedream_2bw: no equal stages fit in {} devices of {:.0f} bytes",
                    input.devices, input.memory));
  }

 private:
  static Planned with_batch(Plan plan, double batch, const PlanInput& input) {
    Planned planned{.plan = std::move(plan)};
    const PlanStage& stage = planned.plan.stages.front();  // all alike
    const auto degree = static_cast<std::size_t>(
        std::ranges::find(input.degrees, stage.tensor_parallel) - input.degrees.begin());
    std::size_t again = 0;
    for (const PlanStage& each : planned.plan.stages)
      for (std::size_t i = 0; i < each.nodes.size(); ++i)
        again += input.nodes[each.nodes[i]].modes[degree][each.modes[i]].recomputes() ? 1U : 0U;
    planned.facts["data_parallel"] = static_cast<double>(stage.data_parallel);
    planned.facts["tensor_parallel"] = static_cast<double>(stage.tensor_parallel);
    planned.facts["recomputed"] = static_cast<double>(again);
    planned.facts["simulated_per_sample_us"] =
        batch * 1e6 / static_cast<double>(input.micro_batches);
    return planned;
  }

  PlannerOptions options_;
  std::string parts_, simulate_;
};

}  // namespace

std::vector<std::int64_t> first_devices(const Plan& plan) {
  std::vector<std::int64_t> first;
  std::int64_t next = 0;
  for (const PlanStage& stage : plan.stages) {
    first.push_back(next);
    next += stage.devices();
  }
  return first;
}

std::string in_words(const Plan& plan) {
  std::string text = fmt::format("{} stage{} on {} devices:", plan.stages.size(),
                                 plan.stages.size() == 1 ? "" : "s", plan.devices());
  for (const PlanStage& stage : plan.stages)
    text += fmt::format(" {} x ({} x {})", stage.nodes.size(), stage.data_parallel,
                        stage.tensor_parallel);
  return text + "; nodes x (replicas x tensor parallel)";
}

Placement Planner::place(const Problem& problem, std::uint64_t /*seed*/) const {
  const std::vector<DeviceClass> classes = device_classes(problem);
  if (classes.size() != 1 || classes[0].core)
    throw InputError("planners of replicas need devices that are all alike");
  PlanInput input = read_plan_input(file());
  input.devices = static_cast<std::int64_t>(problem.cluster.num_devices());
  input.memory = static_cast<double>(classes[0].memory.count);
  if (input.devices > 1)
    input.bandwidth = problem.cluster.link(DeviceId{0}, DeviceId{1}).bandwidth.bytes_per_second;
  input = prepared(std::move(input));
  Planned planned = plan(input);
  Placement result{.device = IdVector<OpId, DeviceId>(problem.graph.num_ops()),
                   .facts = std::move(planned.facts)};
  const std::vector<std::int64_t> first = first_devices(planned.plan);
  IdVector<OpId, char> placed(problem.graph.num_ops(), 0);
  for (std::size_t s = 0; s < first.size(); ++s) {
    for (const BlockId b : planned.plan.stages[s].nodes) {
      const auto v = problem.graph.find(input.nodes[b].op);
      if (!v)
        throw InputError(fmt::format("{}: the graph has no op '{}': another graph's file?", file(),
                                     input.nodes[b].op));
      result.device[*v] = static_cast<DeviceId>(first[s]);
      placed[*v] = 1;
    }
  }
  if (std::ranges::count(placed, 0) > 0)
    throw InputError(fmt::format("{}: the graph has other ops than this file", file()));
  result.facts["time_per_sample_us"] = planned.plan.time_per_sample * 1e6;
  result.facts["devices"] = static_cast<double>(planned.plan.devices());
  result.facts["stages"] = static_cast<double>(planned.plan.stages.size());
  result.detail = planned.detail + (planned.detail.empty() ? "" : "; ") + in_words(planned.plan);
  return result;
}

std::unique_ptr<Planner> make_piper(Options& o) {
  return std::make_unique<Piper>(o);
}
std::unique_ptr<Planner> make_pipedream_2bw(Options& o) {
  return std::make_unique<PipeDream2bw>(o);
}

}  // namespace baechi::exact

namespace baechi {

std::unique_ptr<Placer> make_piper(Options& o) {
  return exact::make_piper(o);
}
std::unique_ptr<Placer> make_pipedream_2bw(Options& o) {
  return exact::make_pipedream_2bw(o);
}

}  // namespace baechi
