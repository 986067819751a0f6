#include "placers/interface/placer.h"
#include "placers/planners/planner.h"

namespace baechi {
namespace {

using planners::Planned, planners::Planner, planners::PlannerInput;

/// The stages of a plan as a placement, for scenarios: each op goes to the first device of its
/// stage. Plans for the devices of the problem, which must be identical. Throws InputError if the
/// graph is not that of the planner's file.
class PlannedStages final : public Placer {
 public:
  explicit PlannedStages(std::unique_ptr<Planner> planner) : planner_(std::move(planner)) {}

  Placement place(const Problem& problem, std::uint64_t /*seed*/) const override {
    const std::vector<DeviceClass> classes = device_classes(problem);
    if (classes.size() != 1 || classes[0].core)
      throw InputError("planners of replicas need identical devices");
    PlannerInput input = planners::read_planner_input(planner_->file());
    input.devices = static_cast<std::int64_t>(problem.cluster.num_devices());
    input.memory = static_cast<double>(classes[0].memory.count);
    if (input.devices > 1)
      input.bandwidth = problem.cluster.link(DeviceId{0}, DeviceId{1}).bandwidth.bytes_per_second;
    input = planner_->prepared(std::move(input));
    Planned planned = planner_->plan(input);
    Placement result{.device = IdVector<OpId, DeviceId>(problem.graph.num_ops()),
                     .facts = std::move(planned.facts)};
    const std::vector<std::int64_t> first = first_devices(planned.plan);
    IdVector<OpId, char> placed(problem.graph.num_ops(), 0);
    for (std::size_t s = 0; s < first.size(); ++s) {
      for (const exact::BundleId b : planned.plan.stages[s].nodes) {
        const auto v = problem.graph.find(input.nodes[b].op);
        if (!v)
          throw InputError(fmt::format("{}: the graph has no op '{}': another graph's file?",
                                       planner_->file(), input.nodes[b].op));
        result.device[*v] = static_cast<DeviceId>(first[s]);
        placed[*v] = 1;
      }
    }
    if (std::ranges::count(placed, 0) > 0)
      throw InputError(fmt::format("{}: the graph has other ops than this file", planner_->file()));
    result.facts["time_per_sample_us"] = planned.plan.time_per_sample * 1e6;
    result.facts["devices"] = static_cast<double>(planned.plan.devices());
    result.facts["stages"] = static_cast<double>(planned.plan.stages.size());
    result.detail =
        planned.detail + (planned.detail.empty() ? "" : "; ") + staged_plan_text(planned.plan);
    return result;
  }

 private:
  std::unique_ptr<Planner> planner_;
};

}  // namespace

std::unique_ptr<Placer> make_piper(Options& o) {
  return std::make_unique<PlannedStages>(planners::make_piper(o));
}
std::unique_ptr<Placer> make_pipedream_2bw(Options& o) {
  return std::make_unique<PlannedStages>(planners::make_pipedream_2bw(o));
}

}  // namespace baechi
