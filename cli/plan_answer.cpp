#include "cli/plan_answer.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/arguments.h"
#include "cli/output.h"
#include "sim/error.h"

namespace baechi {
namespace {

using Json = nlohmann::ordered_json;

/// "after", "beside" or, because nobody keeps whole gradients, "each pass".
std::string sent_text(const ParallelPlan& plan) {
  const DataParallelOptions options = plan.data_parallel(1);
  if (options.replicas == 1) return "-";
  if (options.sends_each_pass()) return "each pass";
  return options.sends_after() ? "after" : "beside";
}

Json memory_json(const pipeline::StageUse& stage) {
  const PeakMemory& m = stage.by_kind;
  return {{"weights", m.weights.count},
          {"gradients", m.gradients.count},
          {"optimizer_state", m.optimizer_state.count},
          {"activations", m.activations.count},
          {"workspace", m.workspace.count},
          {"copies", m.copies.count},
          {"framework", (stage.peak - m.total()).count}};
}

/// What a plan leaves of a device of `machines`, beside the reserve; or what it lacks.
Cell spare_cell(const SimulatedPlan& plan, const Machines& machines) {
  const Bytes spare = machines.memory() - plan.fullest().peak, lacks = machines.reserve - spare;
  return {spare.count, lacks > Bytes{} ? "lacks " + to_text(lacks) : to_text(spare)};
}

/// The columns of axes that no plan uses are in JSON alone. `names` of the plans; empty: numbers.
Report report_of(const std::vector<SimulatedPlan>& plans, const TrainingJob& job,
                 const Machines& machines, const std::vector<std::string>& names = {}) {
  const auto head = [&](auto ParallelPlan::* member, const char* name) {
    const bool used = std::ranges::any_of(plans, [&](const SimulatedPlan& row) {
      return row.plan.*member != ParallelPlan{}.*member;
    });
    return used ? std::optional<std::string>(name) : std::nullopt;
  };
  Report report({{names.empty() ? "" : "flags", ""},
                 {"tensor", "tensor"},
                 {"sequence", head(&ParallelPlan::sequence, "sequence")},
                 {"overlap", head(&ParallelPlan::overlap, "overlap")},
                 {"overlap_experts", head(&ParallelPlan::overlap_experts, "overlap_experts")},
                 {"context", head(&ParallelPlan::context, "context")},
                 {"expert", head(&ParallelPlan::expert, "expert")},
                 {"data", "data"},
                 {"pipeline", "pipeline"},
                 {"virtual", head(&ParallelPlan::chunks, "virtual")},
                 {"schedule", head(&ParallelPlan::schedule, "schedule")},
                 {"", "micro-batch"},
                 {"micro_batch", {}},
                 {"micro_batches", {}},
                 {"recompute", {}},
                 {"recomputed", "recompute"},
                 {"precision", "precision"},
                 {"zero", "ZeRO"},
                 {"fsdp", head(&ParallelPlan::group, "group")},
                 {"gradients_sent", "sent"},
                 {"step_time_us", "step"},
                 {"samples_per_s", "samples/s"},
                 {"bubble", "bubble"},
                 {"peak_bytes", "memory"},
                 {"spare_bytes", "spare"},
                 {"weights_bytes", "weights"},
                 {"gradients_bytes", "gradients"},
                 {"optimizer_state_bytes", "optimizer"},
                 {"activations_bytes", "activations"},
                 {"workspace_bytes", {}},
                 {"copies_bytes", {}}});
  std::size_t rank = 0;
  for (const SimulatedPlan& row : plans) {
    const ParallelPlan& p = row.plan;
    const PeakMemory& memory = row.fullest().by_kind;
    const std::int64_t passes = p.micro_batches(job.batch);
    const double samples = static_cast<double>(job.batch) / (to_us(row.step) / 1e6);
    ++rank;
    report.add({names.empty() ? Cell(rank) : Cell(names[rank - 1]),
                p.tensor,
                p.sequence,
                p.overlap,
                p.overlap_experts,
                p.context,
                p.expert,
                p.data,
                p.pipeline,
                p.chunks,
                p.passes().name,
                fmt::format("{} x {}", passes, p.micro_batch),
                p.micro_batch,
                passes,
                p.recompute == Recomputing::full,
                to_text(p.recompute),
                p.precision,
                p.zero,
                p.group,
                sent_text(p),
                row.step,
                Cell(samples, fmt::format("{:.4g}", samples)),
                Cell(row.bubble, fmt::format("{:.1f} %", 100.0 * row.bubble)),
                row.fullest().peak,
                spare_cell(row, machines),
                memory.weights,
                memory.gradients,
                memory.optimizer_state,
                memory.activations,
                memory.workspace,
                memory.copies});
  }
  return report;
}

Json stages_json(const SimulatedPlan& plan) {
  Json stages = Json::array();
  for (const pipeline::StageUse& stage : plan.stages)
    stages.push_back({{"device", index(stage.device)},
                      {"peak_bytes", stage.peak.count},
                      {"memory", memory_json(stage)}});
  return stages;
}

std::string stages_text(const SimulatedPlan& plan) {
  Report report({{"", "stage"},
                 {"", "memory"},
                 {"", "weights"},
                 {"", "gradients"},
                 {"", "optimizer"},
                 {"", "activations"},
                 {"", "workspace"},
                 {"", "copies"}});
  std::size_t number = 0;
  for (const pipeline::StageUse& stage : plan.stages) {
    const PeakMemory& m = stage.by_kind;
    report.add({number++, stage.peak, m.weights, m.gradients, m.optimizer_state, m.activations,
                m.workspace, m.copies});
  }
  return report.table();
}

/// A plan that is named fits without the reserve, too.
bool fits_devices(const SimulatedPlan& plan, const Machines& machines) {
  return plan.fullest().peak <= machines.memory();
}

std::string counts_text(const PlanAnswer& answer) {
  return fmt::format(
      "{} plans: {} do not fit by their weights, gradients, optimizer state and what backward "
      "passes wait for; {} simulated, of which {} ran out of memory; {} slower by a lower bound",
      answer.considered, answer.too_large, answer.simulated, answer.out_of_memory, answer.slower);
}

std::string check_text(const SimulatedPlan& plan, const Machines& machines) {
  const std::ptrdiff_t fullest = &plan.fullest() - plan.stages.data();
  const Bytes peak = plan.fullest().peak, memory = machines.memory();
  const bool fits = fits_devices(plan, machines);
  const std::string scarce = fits && peak + machines.reserve > memory
                                 ? fmt::format(
                                       ", and leaves less than the reserve of {} for the "
                                       "framework's runtime",
                                       to_text(machines.reserve))
                                 : "";
  return fmt::format("{}: stage {} needs {} of {}{}\n{}", fits ? "fits" : red("does not fit"),
                     fullest, to_text(peak), to_text(memory), scarce, stages_text(plan));
}

std::vector<SimulatedPlan> plans_of(const std::vector<Remedy>& remedies) {
  std::vector<SimulatedPlan> plans;
  for (const Remedy& remedy : remedies) plans.push_back(remedy.plan);
  return plans;
}
Report report_of(const std::vector<Remedy>& remedies, const TrainingJob& job,
                 const Machines& machines) {
  std::vector<std::string> names;
  for (const Remedy& remedy : remedies) names.push_back(remedy.flags);
  return report_of(plans_of(remedies), job, machines, names);
}

std::string none_fits_text(const PlanFindings& found, const TrainingJob& job,
                           const Machines& machines) {
  return fmt::format(
      "{}\n{}\n{}", bold("no plan fits; those that lack least"),
      report_of(found.smallest, job, machines).table(),
      found.remedies.empty()
          ? std::string("no other --recompute, --precision, --zero or --micro-batch makes one fit, "
                        "nor up to 64 times the devices\n")
          : "a plan fits with\n" + report_of(found.remedies, job, machines).table());
}

}  // namespace

std::string plan_text(const PlanFindings& found, const TrainingJob& job, const Machines& machines,
                      const std::vector<Evidence>& evidence, bool check) {
  const PlanAnswer& answer = found.answer;
  const std::string reserve =
      check || machines.reserve == Bytes{}
          ? ""
          : fmt::format(
                "reserve      {} of each device, which plans leave free for the framework's "
                "runtime (--reserve)\n",
                to_text(machines.reserve));
  return fmt::format("{}\n{}\n{}times of {}: {}\n{}",
                     answer.fastest.empty() ? none_fits_text(found, job, machines)
                                            : report_of(answer.fastest, job, machines).table(),
                     check ? check_text(answer.fastest.front(), machines) : counts_text(answer),
                     reserve, machines.gpu->name, machines.gpu->source, evidence_line(evidence));
}

Json plan_json(const PlanFindings& found, const TrainingJob& job, const Machines& machines,
               const std::vector<Evidence>& evidence, bool check) {
  const PlanAnswer& answer = found.answer;
  const auto rows = [&](const Report& report, const std::vector<SimulatedPlan>& plans) {
    Json json = report.json();
    for (std::size_t i = 0; i < plans.size(); ++i)
      json[i]["memory"] = memory_json(plans[i].fullest());
    return json;
  };
  Json json{{"status", to_text(answer.fastest.empty() ? Status::infeasible : Status::ok)}};
  if (check) {
    const SimulatedPlan& plan = answer.fastest.front();
    json["status"] = to_text(fits_devices(plan, machines) ? Status::ok : Status::oom);
    json["fits"] = fits_devices(plan, machines);
    json["limit_bytes"] = machines.memory().count;
    json["fullest_stage"] = &plan.fullest() - plan.stages.data();
    json["stages"] = stages_json(plan);
  }
  json["plans"] = rows(report_of(answer.fastest, job, machines), answer.fastest);
  if (answer.fastest.empty()) {
    json["smallest"] = rows(report_of(found.smallest, job, machines), found.smallest);
    json["remedies"] = rows(report_of(found.remedies, job, machines), plans_of(found.remedies));
  }
  json["reserve_bytes"] = machines.reserve.count;
  json["considered"] = answer.considered;
  json["too_large"] = answer.too_large;
  json["simulated"] = answer.simulated;
  json["out_of_memory"] = answer.out_of_memory;
  json["slower"] = answer.slower;
  json["times_of"] = {{"kind", machines.gpu->name}, {"source", machines.gpu->source}};
  json["evidence"] = evidence_json(evidence);
  return json;
}

}  // namespace baechi
