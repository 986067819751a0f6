#include "cli/plan_answer.h"

#include <fmt/format.h>

#include <algorithm>

#include "cli/cluster_flags.h"
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

/// The columns of axes that no plan uses are in JSON alone.
Report report_of(const std::vector<SimulatedPlan>& plans, const TrainingJob& job) {
  const auto head = [&](auto ParallelPlan::* member, const char* name) {
    const bool used = std::ranges::any_of(plans, [&](const SimulatedPlan& row) {
      return row.plan.*member != ParallelPlan{}.*member;
    });
    return used ? std::optional<std::string>(name) : std::nullopt;
  };
  Report report({{"", ""},
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
    report.add({++rank,
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

Bytes limit_of(const Machines& machines) {
  return machines.cluster.device(DeviceId{}).memory;
}
bool fits_devices(const SimulatedPlan& plan, const Machines& machines) {
  return plan.fullest().peak <= limit_of(machines);
}

std::string counts_text(const PlanAnswer& answer) {
  return fmt::format(
      "{} plans: {} do not fit by their weights, gradients, optimizer state and what backward "
      "passes wait for; {} simulated, of which {} ran out of memory; {} slower by a lower bound",
      answer.considered, answer.too_large, answer.simulated, answer.out_of_memory, answer.slower);
}

std::string check_text(const SimulatedPlan& plan, const Machines& machines) {
  const std::ptrdiff_t fullest = &plan.fullest() - plan.stages.data();
  return fmt::format("{}: stage {} needs {} of {}\n{}",
                     fits_devices(plan, machines) ? "fits" : red("does not fit"), fullest,
                     to_text(plan.fullest().peak), to_text(limit_of(machines)), stages_text(plan));
}

}  // namespace

std::string plan_text(const PlanAnswer& answer, const TrainingJob& job, const Machines& machines,
                      const std::vector<Evidence>& evidence, bool check) {
  return fmt::format(
      "{}\n{}\ntimes of {}: {}\n{}",
      answer.fastest.empty() ? bold("no plan fits\n") : report_of(answer.fastest, job).table(),
      check ? check_text(answer.fastest.front(), machines) : counts_text(answer),
      machines.gpu->name, machines.gpu->source, evidence_line(evidence));
}

Json plan_json(const PlanAnswer& answer, const TrainingJob& job, const Machines& machines,
               const std::vector<Evidence>& evidence, bool check) {
  Json plans = report_of(answer.fastest, job).json();
  for (std::size_t i = 0; i < answer.fastest.size(); ++i)
    plans[i]["memory"] = memory_json(answer.fastest[i].fullest());
  Json json{{"status", to_text(answer.fastest.empty() ? Status::infeasible : Status::ok)}};
  if (check) {
    const SimulatedPlan& plan = answer.fastest.front();
    json["status"] = to_text(fits_devices(plan, machines) ? Status::ok : Status::oom);
    json["fits"] = fits_devices(plan, machines);
    json["limit_bytes"] = limit_of(machines).count;
    json["fullest_stage"] = &plan.fullest() - plan.stages.data();
    json["stages"] = stages_json(plan);
  }
  json["plans"] = std::move(plans);
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
