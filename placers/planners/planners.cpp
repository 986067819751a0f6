#include "placers/planners/simulated_batch.h"
#include "placers/planners/stages_program.h"

namespace baechi::planners {
namespace {

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

  PlannerInput prepared(PlannerInput input) const {
    if (micro_batches_ > 0) input.micro_batches = micro_batches_;
    return tensor_parallel_ ? input : input.without_tensor_parallelism();
  }

 private:
  std::string file_;
  std::int64_t micro_batches_;
  bool tensor_parallel_;
};

/// The best contiguous plan of stages of any size, with replicas, degrees and modes.
/// Source: Tarnawski, Narayanan, Phanishayee, "Piper", NeurIPS 2021.
class Piper final : public Planner {
 public:
  explicit Piper(Options& o)
      : options_(o),
        choice_(read_enum(o, "modes", ModeChoice::greedy,
                          "which nodes recompute: as the authors' program chooses, or the choice "
                          "of least time that fits")),
        data_parallel_(o.get("data_parallel", true, "stages may have replicas")),
        recompute_(o.get("recompute", true, "nodes may recompute activations")),
        max_ideals_(static_cast<std::size_t>(o.get(
            "max_ideals", std::int64_t{40'000},
            "with more ideals, only a linear order of all nodes is searched", 1, 10'000'000))) {}

  const std::string& file() const override { return options_.file(); }
  PlannerInput prepared(PlannerInput input) const override {
    input = options_.prepared(std::move(input));
    input.most_replicas = data_parallel_ ? PlannerInput::any : 1;
    return recompute_ ? input : input.without_recomputation();
  }

  Planned plan(const PlannerInput& input) const override {
    FoundStages found = search_plans(input, choice_, max_ideals_);
    if (!found.plan) throw InfeasibleError("piper: " + why_no_plan(input));
    Planned planned{.plan = std::move(*found.plan)};
    planned.facts["ideals"] = static_cast<double>(found.ideals);
    if (found.ideals == 0)
      planned.detail = fmt::format(
          "more than {} ideals: only a linear order of all nodes was searched", max_ideals_);
    return planned;
  }

 private:
  PlannerOptions options_;
  ModeChoice choice_;
  bool data_parallel_, recompute_;
  std::size_t max_ideals_;
};

/// Which plans PipeDream2bw simulates.
enum class Simulated : std::uint8_t { nothing, plan, all };
constexpr auto names_of(Simulated) { return enumerators<Simulated::all>(); }

/// Equal stages with equal degrees, all recomputed or none.
/// Source: Narayanan et al., "PipeDream-2BW", ICML 2021, as implemented in Piper's program.
class PipeDream2bw final : public Planner {
 public:
  explicit PipeDream2bw(Options& o)
      : options_(o),
        parts_(read_enum_unless<EqualParts>(
            o, "stages", "auto",
            "of equally many transformer layers, or of equally many nodes; auto: of transformer "
            "layers if there are any")),
        simulated_(read_enum(
            o, "simulate", Simulated::nothing,
            "batches in the engine: of the plan that the formula finds fastest; or of all, and the "
            "fastest is taken. The fact simulated_per_sample_us has it")) {}

  const std::string& file() const override { return options_.file(); }
  PlannerInput prepared(PlannerInput input) const override {
    return options_.prepared(std::move(input));
  }

  Planned plan(const PlannerInput& input) const override {
    if (parts_ == EqualParts::transformers && !has_transformers(input))
      throw InputError("pipedream_2bw: no node is called 'ParallelTransformerLayer'");
    const EqualParts parts =
        parts_.value_or(has_transformers(input) ? EqualParts::transformers : EqualParts::nodes);
    if (simulated_ == Simulated::all) {
      if (auto found = best_simulated_split(input, parts)) {
        Planned planned = with_batch(std::move(found->plan), found->batch, input);
        planned.facts["simulated_plans"] = static_cast<double>(found->simulated);
        planned.facts["fitting_plans"] = static_cast<double>(found->fitting);
        return planned;
      }
    } else if (auto plan = best_equal_split(input, parts)) {
      if (simulated_ == Simulated::nothing) return {.plan = std::move(*plan)};
      const double batch = simulated_batch(*plan, input);
      return with_batch(std::move(*plan), batch, input);
    }
    throw InfeasibleError(
        fmt::format("pipedream_2bw: no equal stages fit in {} devices of {:.0f} bytes",
                    input.devices, input.memory));
  }

 private:
  static Planned with_batch(StagedPlan plan, double batch, const PlannerInput& input) {
    Planned planned{.plan = std::move(plan)};
    const PlannedStage& stage = planned.plan.stages.front();  // all stages are equal
    std::size_t again = 0;
    for (const PlannedStage& each : planned.plan.stages) again += recomputed(input, each).size();
    planned.facts["data_parallel"] = static_cast<double>(stage.data_parallel);
    planned.facts["tensor_parallel"] = static_cast<double>(stage.tensor_parallel);
    planned.facts["recomputed"] = static_cast<double>(again);
    planned.facts["simulated_per_sample_us"] =
        batch * 1e6 / static_cast<double>(input.micro_batches);
    return planned;
  }

  PlannerOptions options_;
  std::optional<EqualParts> parts_;
  Simulated simulated_;
};

}  // namespace

std::unique_ptr<Planner> make_piper(Options& o) { return std::make_unique<Piper>(o); }
std::unique_ptr<Planner> make_pipedream_2bw(Options& o) {
  return std::make_unique<PipeDream2bw>(o);
}

std::span<const PlannerEntry> planners() {
  static constexpr PlannerEntry table[] = {
      {.name = "piper", .make = make_piper},
      {.name = "pipedream_2bw", .make = make_pipedream_2bw},
  };
  return table;
}

const PlannerEntry* find_planner(std::string_view name) {
  const auto entry = std::ranges::find(planners(), name, &PlannerEntry::name);
  return entry == planners().end() ? nullptr : &*entry;
}

}  // namespace baechi::planners
