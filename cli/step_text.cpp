#include "cli/step_text.h"

#include "cli/output.h"
#include "sim/graph/analysis.h"

namespace baechi {

using pipeline::PipelineOptions;
using pipeline::PipelineResult;
using pipeline::StageUse;

namespace {

/// Whether memory ran out while weights were loaded, before the first op.
bool while_loading(const OutOfMemory& oom, const Problem& problem, const Placement& placement) {
  Bytes weights;
  for (const OpId v : problem.graph.ops()) {
    if (placement.device[v] == oom.device) weights += problem.graph.op(v).persistent;
  }
  return oom.live[MemoryKind::weights] < weights;
}

nlohmann::ordered_json by_kind(const MemoryUse& use) {
  auto json = nlohmann::ordered_json::object();
  for (const MemoryKind kind : memory_kinds) json[std::string(to_text(kind))] = use[kind].count;
  return json;
}

/// A row per device. The text table has columns for gradients and optimizer state if a device has
/// some.
Report devices_report(const StepResult& step, const Problem& problem, const Placement& placement,
                      std::optional<Bytes> reserve = {}) {
  const Cluster& cluster = problem.cluster;
  IdVector<DeviceId, PeakMemory> peaks;
  for (const DeviceId d : cluster.devices())
    peaks.push_back(peak_memory(problem, placement, d, step.devices[d].at_peak));
  const bool training = std::ranges::any_of(peaks, [](const PeakMemory& peak) {
    return peak.gradients > Bytes{} || peak.optimizer_state > Bytes{};
  });
  const bool caches =
      std::ranges::any_of(peaks, [](const PeakMemory& peak) { return peak.cache > Bytes{}; });
  const auto if_training = [training](const char* head) {
    return training ? std::optional<std::string>(head) : std::nullopt;
  };
  Report report({{"name", "device"},
                 {"busy_us", "busy"},
                 {"", ""},
                 {"", "idle"},
                 {"peak_bytes", "peak"},
                 {"limit_bytes", "limit"},
                 {"", ""},
                 {"", reserve ? std::optional<std::string>("spare") : std::nullopt},
                 {"at_peak", {}},
                 {"peak_kinds", {}},
                 {"", "weights"},
                 {"", caches ? std::optional<std::string>("cache") : std::nullopt},
                 {"", if_training("gradients")},
                 {"", if_training("optimizer")},
                 {"", "activations"},
                 {"", "copies"},
                 {"", "workspace"}});
  for (const DeviceId d : cluster.devices()) {
    const DeviceUse& use = step.devices[d];
    const PeakMemory& peak = peaks[d];
    const Bytes limit = cluster.device(d).memory + reserve.value_or(Bytes{});
    const Duration idle = std::max(step.makespan - use.busy, Duration::zero());
    report.add({cluster.device(d).name, use.busy, percent(use.busy, step.makespan),
                percent(idle, step.makespan), use.peak, limit, percent(use.peak, limit),
                limit - use.peak, Cell(by_kind(use.at_peak), ""), Cell(peak_json(peak), ""),
                peak.weights, peak.cache, peak.gradients, peak.optimizer_state, peak.activations,
                peak.copies, peak.workspace});
  }
  return report;
}

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

std::string sentence(const OutOfMemory& oom, const Problem& problem, const Placement& placement) {
  const Device& device = problem.cluster.device(oom.device);
  std::string who = fmt::format("op '{}'", problem.graph.name(oom.op));
  if (oom.transfer)
    who = "the copy of an output of " + who;
  else if (while_loading(oom, problem, placement))
    who = "the weights of " + who;
  std::vector<std::string> live;
  for (const MemoryKind kind : memory_kinds) {
    if (oom.live[kind] > Bytes{})
      live.push_back(fmt::format("{} {}", to_text(kind), to_text(oom.live[kind])));
  }
  return fmt::format("out of memory on {} at {}: {}: {} needed, of {} only {} are free (live: {})",
                     device.name, to_text(oom.at.time_since_epoch()), who, to_text(oom.needed),
                     to_text(device.memory), to_text(oom.free),
                     live.empty() ? "nothing" : fmt::format("{}", fmt::join(live, ", ")));
}

std::string step_table(const StepResult& step, const LowerBounds& bounds, const Problem& problem,
                       const Placement& placement, std::optional<Bytes> reserve) {
  std::string text;
  if (step.oom) {
    text += red(sentence(*step.oom, problem, placement)) + "\n";
    if (!bounds.fits_in_memory) text += "no placement fits: " + bounds.why_not + "\n";
  } else {
    text += fmt::format("step time    {}", bold(to_text(step.makespan)));
    if (bounds.best() > Duration::zero())
      text +=
          fmt::format(", {:.2f} x the lower bound", static_cast<double>(step.makespan.count()) /
                                                        static_cast<double>(bounds.best().count()));
    text += "\n";
  }
  text += fmt::format("lower bound  {} ({})\n", to_text(bounds.best()), bounds.binding());
  text += fmt::format("moved        {} in {} transfers\n", to_text(step.moved), step.transfers);
  if (persistent_of_one_kind(problem.graph))
    text +=
        "weights      include gradients and optimizer state: the graph does not distinguish them\n";
  return text + "\n" + devices_report(step, problem, placement, reserve).table();
}

nlohmann::ordered_json peak_json(const PeakMemory& peak) {
  using Json = nlohmann::ordered_json;
  const auto if_distinguished = [&](Bytes part) {
    return peak.distinguished ? Json(part.count) : Json();
  };
  Json json = {{"weights", peak.weights.count},
               {"gradients", if_distinguished(peak.gradients)},
               {"optimizer_state", if_distinguished(peak.optimizer_state)},
               {"activations", peak.activations.count},
               {"workspace", peak.workspace.count},
               {"copies", peak.copies.count}};
  if (peak.cache > Bytes{}) json["cache"] = peak.cache.count;
  return json;
}

nlohmann::ordered_json step_json(const StepResult& step, const LowerBounds& bounds,
                                 const Problem& problem, const Placement& placement) {
  using Json = nlohmann::ordered_json;
  Json json;
  json["status"] = to_text(step.oom ? Status::oom : Status::ok);
  json["step_time_us"] = step.oom ? Json() : Json(to_us(step.makespan));
  json["lower_bound_us"] = to_us(bounds.best());
  json["devices"] = devices_report(step, problem, placement).json();
  json["moved_bytes"] = step.moved.count;
  json["transfers"] = step.transfers;
  json["events"] = step.events;
  json["oom"] = nullptr;
  if (step.oom) {
    json["oom"] = {{"device", index(step.oom->device)},
                   {"op", problem.graph.name(step.oom->op)},
                   {"transfer", step.oom->transfer.has_value()},
                   {"needed_bytes", step.oom->needed.count},
                   {"free_bytes", step.oom->free.count},
                   {"at_us", to_us(step.oom->at.time_since_epoch())},
                   {"live", by_kind(step.oom->live)}};
  }
  return json;
}

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
