#include "cli/place_plan.h"

#include "cli/output.h"
#include "cli/progress.h"
#include "placers/planners/simulated_batch.h"
#include "sim/file_aside.h"

namespace baechi {
namespace {

using Json = nlohmann::ordered_json;
using planners::PlannedStage;
using planners::PlannerAnswer;
using planners::PlannerInput;
using planners::StagedPlan;

Json planner_stages_json(const PlannerAnswer& answer) {
  Json stages = Json::array();
  const StagedPlan& plan = answer.planned->plan;
  const std::vector<std::int64_t> first = planners::first_devices(plan);
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const PlannedStage& stage = plan.stages[s];
    Json ops = Json::array(), replicas = Json::array();
    for (const exact::BundleId b : stage.nodes) ops.push_back(answer.input.nodes[b].op);
    for (std::int64_t r = 0; r < stage.data_parallel; ++r) {
      Json group = Json::array();
      for (std::int64_t t = 0; t < stage.tensor_parallel; ++t)
        group.push_back(first[s] + r * stage.tensor_parallel + t);
      replicas.push_back(std::move(group));
    }
    stages.push_back({{"ops", std::move(ops)},
                      {"devices", std::move(replicas)},
                      {"recompute", planners::recomputed(answer.input, stage)},
                      {"data_parallel", stage.data_parallel},
                      {"tensor_parallel", stage.tensor_parallel},
                      {"micro_batches_in_flight", stage.in_flight},
                      {"memory_bytes", stage.memory},
                      {"time_us", stage.time * 1e6}});
  }
  return stages;
}

/// A placement file, where each op is on the first device of its stage, and the plan.
Json planner_answer_json(const PlannerAnswer& answer, const PlanRequest& request) {
  Json json{{"format", "baechi-placement"},
            {"version", 1},
            {"graph", request.file},
            {"devices", answer.input.devices},
            {"placement", Json::object()}};
  json["placer"] = request.planner_text;
  json["placing_ms"] = std::chrono::duration<double, std::milli>(answer.planning).count();
  json["facts"] = Json::object();
  json["status"] = to_text(answer.planned ? Status::ok : Status::infeasible);
  json["detail"] = answer.detail;
  json["time_per_sample_us"] = Json();
  json["simulated_us"] = Json();
  json["simulated_together_us"] = Json();
  json["simulated_overlap_us"] = Json();
  json["simulated_batch_us"] = Json();
  json["difference"] = Json();
  json["plan"] = Json();
  if (!answer.planned) return json;
  const StagedPlan& plan = answer.planned->plan;
  const std::vector<std::int64_t> first = planners::first_devices(plan);
  for (std::size_t s = 0; s < plan.stages.size(); ++s)
    for (const exact::BundleId b : plan.stages[s].nodes)
      json["placement"][answer.input.nodes[b].op] = first[s];
  json["facts"] = answer.planned->facts;
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {  // in the format that Replicas reads
    json["facts"][fmt::format("stage_{}_first", s)] = first[s];
    json["facts"][fmt::format("stage_{}_devices", s)] = plan.stages[s].data_parallel;
  }
  json["facts"]["devices_used"] = plan.devices();
  json["facts"]["micro_batches"] = answer.input.micro_batches;
  json["facts"]["simulated_micro_batches"] = answer.batch->micro_batches;
  json["time_per_sample_us"] = plan.time_per_sample * 1e6;
  using enum planners::StageTransfers;
  if (answer.batch->at(apart) > 0.0) {
    json["simulated_us"] = answer.batch->at(apart) * 1e6;
    json["simulated_together_us"] = answer.batch->at(together) * 1e6;
    json["simulated_overlap_us"] = answer.batch->at(overlap) * 1e6;
    json["difference"] = answer.batch->difference;
  }
  json["simulated_batch_us"] = answer.batch->seconds * 1e6;
  json["plan"] = {{"stages", planner_stages_json(answer)}};
  return json;
}

std::string planner_answer_table(const PlannerAnswer& answer, const PlanRequest& request) {
  std::string text = fmt::format("placer       {}, {} for {} nodes\n", request.planner_text,
                                 to_text(answer.planning), answer.input.nodes.size());
  if (!answer.planned)
    return text + red(to_text(Status::infeasible)) + fmt::format("   {}\n", answer.detail);
  const StagedPlan& plan = answer.planned->plan;
  if (!answer.detail.empty()) text += fmt::format("detail       {}\n", answer.detail);
  const auto us = [](double seconds) { return fmt::format("{:.3f} us", seconds * 1e6); };
  text += fmt::format("per sample   {} by the planner's formula, {} of {} devices\n",
                      bold(us(plan.time_per_sample)), plan.devices(), answer.input.devices);
  using enum planners::StageTransfers;
  if (answer.batch->at(apart) > 0.0)
    text +=
        fmt::format("simulated    {}: {}\n", us(answer.batch->at(apart)), answer.batch->difference);
  text += fmt::format("batch        {} for {} micro-batches, simulated\n\n",
                      us(answer.batch->seconds), answer.batch->micro_batches);
  Columns columns({"stage", "nodes", "recompute", "replicas", "tensor parallel", "in flight",
                   "memory", "per sample"});
  for (std::size_t s = 0; s < plan.stages.size(); ++s) {
    const PlannedStage& stage = plan.stages[s];
    columns.add({fmt::format("{}", s), fmt::format("{}", stage.nodes.size()),
                 fmt::format("{}", planners::recomputed(answer.input, stage).size()),
                 fmt::format("{}", stage.data_parallel), fmt::format("{}", stage.tensor_parallel),
                 fmt::format("{}", stage.in_flight),
                 to_text(Bytes{static_cast<std::int64_t>(stage.memory)}), us(stage.time)});
  }
  return text + columns.text();
}

}  // namespace

int place_plan(PlanRequest request, const planners::PlannerEntry& entry,
               const PlatformFlags& flags) {
  request.planner.options.set("file", {request.file, "", {}});
  const auto planner = entry.make(request.planner.options);
  request.planner.options.finish();
  PlannerInput input = with_devices(planners::read_planner_input(request.file), flags);
  PlannerAnswer answer;
  {
    const Stage stage("planning");
    answer = planners::run_planner(*planner, std::move(input));
  }
  if (answer.planned) {
    const Stage stage("simulating");
    answer.batch = planners::simulate(answer.planned->plan, answer.input);
  }
  if (answer.planned && !request.output.empty())
    write_aside(request.output, planner_answer_json(answer, request).dump(1) + "\n");
  if (request.format == "json")
    print_json(planner_answer_json(answer, request));
  else
    print_out(planner_answer_table(answer, request));
  return 0;
}

}  // namespace baechi
