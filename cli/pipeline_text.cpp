#include "cli/pipeline_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/output.h"
#include "cli/step_text.h"
#include "sim/error.h"

namespace baechi {

using pipeline::PipelineOptions;
using pipeline::PipelineResult;
using pipeline::StageUse;

namespace {

double per_second(const PipelineResult& result, std::int64_t samples) {
  const auto ns = static_cast<double>(result.per_micro_batch.count());
  return ns > 0.0 ? 1e9 / ns * static_cast<double>(samples) : 0.0;
}

Report stages_report(const PipelineResult& r, const Cluster& cluster) {
  Report report({{"name", "stage"},
                 {"busy_us", "busy"},
                 {"in_flight", "in flight"},
                 {"weight_versions", "versions"},
                 {"peak_bytes", "peak"},
                 {"limit_bytes", "limit"},
                 {"at_peak", {}},
                 {"peak_kinds", {}},
                 {"", "weights"},
                 {"", "spare versions"},
                 {"", "gradients"},
                 {"", "optimizer"},
                 {"", "activations"},
                 {"", "copies"},
                 {"", "workspace"}});
  for (const StageUse& s : r.stages) {
    const nlohmann::ordered_json at_peak{{"weights", s.at_peak[MemoryKind::weights].count},
                                         {"spare_versions", s.spare_versions.count},
                                         {"activations", s.at_peak[MemoryKind::outputs].count},
                                         {"copies", s.at_peak[MemoryKind::copies].count},
                                         {"workspace", s.at_peak[MemoryKind::workspace].count}};
    report.add({cluster.device(s.device).name, s.busy, s.in_flight, s.versions, s.peak,
                cluster.device(s.device).memory, Cell(at_peak, ""), Cell(peak_json(s.by_kind), ""),
                s.by_kind.weights - std::min(s.by_kind.weights, s.spare_versions), s.spare_versions,
                s.by_kind.gradients, s.by_kind.optimizer_state, s.by_kind.activations,
                s.by_kind.copies, s.by_kind.workspace});
  }
  return report;
}

}  // namespace

std::string pipeline_table(const PipelineResult& r, const PipelineOptions& options,
                           const Cluster& cluster, std::int64_t samples) {
  std::string text =
      fmt::format("pipeline     {}{}, {} micro-batches, {} stages{}\n", options.schedule,
                  options.recompute ? ", recomputing" : "", options.micro_batches, r.stages.size(),
                  r.in_line ? "" : " with transfers in both directions");
  if (r.one_kind)
    text +=
        "weights      the graph does not distinguish weights, gradients and optimizer state: each "
        "version holds all of them\n";
  if (r.oom) {
    text +=
        red(fmt::format("out of memory on {} at {}: {} needed, {} free",
                        cluster.device(r.oom->device).name, to_text(r.oom->at.time_since_epoch()),
                        to_text(r.oom->needed), to_text(r.oom->free))) +
        "\n";
  } else {
    text += fmt::format("per sample   {}, {:.4g} samples/s",
                        bold(to_text(r.per_micro_batch / samples)), per_second(r, samples));
    if (samples > 1) text += fmt::format(": {} per micro-batch", to_text(r.per_micro_batch));
    text += "\n";
    text += fmt::format("max_load     {}; simulated {}\n", to_text(r.max_load), r.difference);
    text += fmt::format("whole run    {}, {:.1f} % of the stages' time is bubble",
                        to_text(r.makespan), 100.0 * r.bubble);
    if (r.sending > 0.0) text += fmt::format(", {:.1f} % collectives", 100.0 * r.sending);
    if (r.launching > 0.0) text += fmt::format(", {:.1f} % launches", 100.0 * r.launching);
    text += "\n";
  }
  return text + "\n" + stages_report(r, cluster).table();
}

nlohmann::ordered_json pipeline_json(const PipelineResult& r, const PipelineOptions& options,
                                     const Cluster& cluster, std::int64_t samples) {
  using Json = nlohmann::ordered_json;
  const auto unless_oom = [&](const Json& value) { return r.oom ? Json() : value; };
  return {{"scheme", options.schedule},
          {"micro_batches", options.micro_batches},
          {"recompute", options.recompute},
          {"status", to_text(r.oom ? Status::oom : Status::ok)},
          {"time_us", unless_oom(to_us(r.makespan))},
          {"per_micro_batch_us", unless_oom(to_us(r.per_micro_batch))},
          {"per_sample_us", unless_oom(to_us(r.per_micro_batch) / static_cast<double>(samples))},
          {"samples_per_s", unless_oom(per_second(r, samples))},
          {"bubble", unless_oom(r.bubble)},
          {"sending", unless_oom(r.sending)},
          {"launching", unless_oom(r.launching)},
          {"max_load_us", to_us(r.max_load)},
          {"difference", r.difference},
          {"in_line", r.in_line},
          {"persistent_of_one_kind", r.one_kind},
          {"stages", stages_report(r, cluster).json()}};
}

}  // namespace baechi
