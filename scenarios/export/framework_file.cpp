#include "scenarios/export/framework_file.h"

#include <fmt/ranges.h>

#include <nlohmann/json.hpp>
#include <tuple>

#include "placers/feasible.h"
#include "placers/files/placement_file.h"
#include "placers/framework_placement.h"
#include "placers/refine.h"
#include "placers/whole_modules.h"
#include "sim/pipeline/pipeline.h"
#include "traces/format/compressed_file.h"

namespace baechi {
namespace {

using ExportJson = nlohmann::ordered_json;

struct ModulePlacement {
  std::vector<DeviceId> device;  // [modules]
  std::string how;
  StepResult step;

  bool better_than(const ModulePlacement& other) const {
    const bool fits = !step.oom, other_fits = !other.step.oom;
    return fits != other_fits ? fits : step.makespan < other.step.makespan;
  }
};

ModulePlacement simulate_modules(const ExportTask& task, const WholeModules& modules,
                                 std::vector<DeviceId> device, std::string how) {
  Placement placement = place_on_modules(task.experiment.problem().graph, modules, device);
  return {std::move(device), std::move(how), task.experiment.step(std::move(placement)).simulate()};
}

/// The task's experiment on the same graph with a group for each set of modules that are together.
Experiment on_modules(const ExportTask& task, const WholeModules& modules) {
  PreparedGraph prepared = task.experiment.graph();
  prepared.step =
      std::make_shared<const OpGraph>(group_modules(task.experiment.problem().graph, modules));
  prepared.placed = prepared.step;
  prepared.mapped_op = {};
  const auto costed = std::make_shared<const CostedGraph>(
      std::make_shared<const PreparedGraph>(std::move(prepared)), task.experiment.cluster_choice());
  return {costed, task.experiment.problem().engine};
}

/// Why no map of modules fits, with the modules in the way, and what would help.
std::string refusal(const ExportTask& task, const WholeModules& modules,
                    const Experiment& grouped) {
  const Problem problem = grouped.problem();
  if (modules.num_whole == 0)
    return fmt::format(
        "the model does not fit on one device, although ops do on several; nothing written to {}\n"
        "no op has a module of the model: parts of it in modules of their own may be apart\n",
        task.path);
  std::vector<Bytes> weights(modules.names.size());
  std::vector<std::vector<std::uint32_t>> members(modules.names.size());
  for (const OpId v : problem.graph.ops())
    weights[modules.together[modules.of[v]]] += problem.graph.op(v).persistent;
  for (std::uint32_t m = 0; m < modules.num_whole; ++m) members[modules.together[m]].push_back(m);
  const auto largest =
      static_cast<std::size_t>(std::ranges::max_element(weights) - weights.begin());
  const LowerBounds bounds = lower_bounds(problem.graph, problem.cluster, problem.costs);
  std::string text = fmt::format(
      "{} whole modules do not fit, although ops do: {}; nothing written to {}\n",
      modules.num_whole,
      bounds.fits_in_memory ? "no placement of them was found that fits" : bounds.why_not,
      task.path);
  std::string names;
  for (std::size_t i = 0; i < members[largest].size() && i < 3; ++i)
    names += fmt::format("{}'{}'", i > 0 ? ", " : "", modules.names[members[largest][i]]);
  if (members[largest].size() > 3)
    names += fmt::format(" and {} more", members[largest].size() - 3);
  const OpId join = modules.join[largest];
  if (join != no_op) {
    const std::string_view inside = problem.graph.module(join);
    text += fmt::format(
        "the most weights on one device, {}: {}, because op '{}' in the forward of {} reads "
        "results of several modules, and frameworks only move the inputs of modules: a module of "
        "its own for '{}' may be apart from them\n",
        to_text(weights[largest]), names, problem.graph.name(join),
        inside.empty() ? "the model" : fmt::format("'{}'", inside), problem.graph.kind(join));
  } else {
    text +=
        fmt::format("the most weights on one device, {}: {}{}\n", to_text(weights[largest]), names,
                    members[largest].size() > 1 ? ", which share weights" : ", one module");
  }
  constexpr std::size_t most_ops = 500;  // more take seconds
  if (problem.graph.num_ops() <= most_ops && problem.engine.semantics == Semantics::event) {
    try {
      text += fmt::format("they fit with {} on each device\n",
                          to_text(find_least_memory(problem).bytes));
    } catch (const InfeasibleError&) {  // an op that runs nowhere: said above
    }
  }
  return text;
}

/// ", 3.1 % longer than 12 ms op by op".
std::string price(const ExportTask& task, const Placement& placement, Duration whole) {
  const StepResult before = task.experiment.step(placement).simulate();
  if (before.oom) return "; op by op it runs out of memory";
  const double change =
      100.0 *
      (static_cast<double>(whole.count()) / static_cast<double>(before.makespan.count()) - 1.0);
  return fmt::format(", {:.1f} % {} than the {} of the placement op by op",
                     change < 0 ? -change : change, change < 0 ? "less" : "more",
                     to_text(before.makespan));
}

/// Modules between which PyTorch can cut: it runs each stage once per pass, and a weight has one
/// stage. Runs of modules that it cannot cut apart are one, with the name of the first.
struct StageModules {
  WholeModules modules;
  std::vector<std::uint32_t> of;  ///< [modules before] index into `modules`
};

StageModules modules_of_stages(const OpGraph& graph, const WholeModules& all) {
  const std::size_t n = all.num_whole;
  std::vector<bool> holds(n), joined(n);  // has weights; is in one stage with the module before it
  // Not an op of a divided module, which runs where the last of its inputs is.
  const auto inside = [&](OpId v) {
    const std::string_view own = graph.module(v), whole = all.names[all.of[v]];
    return all.of[v] < n && own.starts_with(whole) &&
           (own.size() == whole.size() || own[whole.size()] == '.');
  };
  for (const OpId v : graph.ops())
    if (inside(v) && graph.op(v).persistent > Bytes{}) holds[all.of[v]] = true;
  const auto join = [&](std::uint32_t first, std::uint32_t last) {
    for (std::uint32_t m = first + 1; m <= last; ++m) joined[m] = true;
  };
  // A module without weights runs where its inputs are, whenever it is called.
  IdVector<OpId, std::uint32_t> at(graph.num_ops(), 0);
  for (const OpId v : graph.ops()) {
    if (graph.op(v).phase != Phase::forward) continue;
    for (const EdgeId e : graph.in_edges(v)) at[v] = std::max(at[v], at[graph.edge(e).src]);
    if (!inside(v) || !holds[all.of[v]]) continue;
    join(all.of[v], at[v]);  // it is called again after later modules
    at[v] = all.of[v];
  }
  for (const GroupId g : graph.groups()) {
    auto first = static_cast<std::uint32_t>(n), last = std::uint32_t{0};
    for (const OpId v : graph.members(g)) {
      if (!inside(v)) continue;
      first = std::min(first, all.of[v]);
      last = std::max(last, all.of[v]);
    }
    join(first, last);
  }
  StageModules result{.modules = all, .of = std::vector<std::uint32_t>(n)};
  result.modules.names.clear();
  for (std::size_t m = 0; m < n; ++m) {
    if (m == 0 || (holds[m] && !joined[m])) result.modules.names.push_back(all.names[m]);
    result.of[m] = static_cast<std::uint32_t>(result.modules.names.size() - 1);
  }
  result.modules.num_whole = result.modules.names.size();
  for (const OpId v : graph.ops()) {
    const OpId forward = graph.op(v).forward;
    result.modules.of[v] = inside(v) && holds[all.of[v]]         ? result.of[all.of[v]]
                           : graph.op(v).phase == Phase::forward ? result.of[at[v]]
                           : forward != no_op && forward < v     ? result.modules.of[forward]
                           : all.of[v] < n                       ? result.of[all.of[v]]
                                                                 : 0;
  }
  return result;
}

struct PipelineCandidate {
  PipelineCuts cuts;
  std::string schedule;  // torch's name
  std::size_t micro_batches = 0;
  Duration per_micro_batch{};
};

bool trains(const OpGraph& graph) {
  for (const OpId v : graph.ops())
    if (graph.op(v).phase == Phase::backward) return true;
  return false;
}

struct TorchSchedule {
  const char *ours, *torch;
};

std::span<const TorchSchedule> schedules_of(const OpGraph& graph) {
  // 1F1B is for those whose memory it saves: with gloo, PyTorch 2.6 waits in it forever.
  static constexpr TorchSchedule training[] = {{"gpipe", "ScheduleGPipe"},
                                               {"1f1b_flush", "Schedule1F1B"}};
  static constexpr TorchSchedule forward[] = {{"inference", "ScheduleGPipe"}};
  if (trains(graph)) return training;
  return forward;
}

/// The stages under one schedule, with as many micro-batches as fit, because fewer leave stages
/// idle for longer. Nothing if even one per stage runs out of memory.
std::optional<PipelineCandidate> with_most_micro_batches(const Problem& problem,
                                                         const PipelineCuts& cuts,
                                                         const Placement& line,
                                                         const TorchSchedule& schedule,
                                                         std::string& why_not) {
  for (const std::size_t per_stage : {4U, 2U, 1U}) {
    const std::size_t micro_batches = per_stage * cuts.first.size();
    const auto result = pipeline::simulate_pipeline(
        problem, line, {.schedule = schedule.ours, .micro_batches = micro_batches});
    if (!result.oom)
      return PipelineCandidate{cuts, schedule.torch, micro_batches, result.per_micro_batch};
    const Device& full = problem.cluster.device(result.oom->device);
    why_not = fmt::format(
        "with {} micro-batches of the trace's batch, {} needs {} where {} is free of {}",
        micro_batches, full.name, to_text(result.oom->needed), to_text(result.oom->free),
        to_text(full.memory));
  }
  return std::nullopt;
}

std::optional<PipelineCandidate> best_line(const ExportTask& task, const WholeModules& modules,
                                           std::string& why_not) {
  const Problem problem = task.experiment.problem();
  std::optional<PipelineCandidate> best;
  why_not = "the weights fit in no sequence of stages";
  for (const double share : {1.0, 0.85, 0.7, 0.5}) {  // of memory for weights
    IdVector<DeviceId, Bytes> limit;
    for (const DeviceId d : problem.cluster.devices())
      limit.push_back(problem.cluster.device(d).computes()
                          ? share * problem.cluster.device(d).memory
                          : Bytes{-1});
    const std::vector<PipelineCuts> lines = cut_line(problem, modules, limit);
    const Duration before = best ? best->cuts.longest : Duration::max();
    for (const TorchSchedule& schedule : schedules_of(problem.graph)) {
      for (const PipelineCuts& cuts : lines) {
        if (task.stages != 0 && cuts.first.size() != task.stages) continue;
        if (cuts.longest >= before) continue;
        const Placement line = place_on_modules(problem.graph, modules, cuts.of_module);
        const auto answer = with_most_micro_batches(problem, cuts, line, schedule, why_not);
        const auto rank = [](const PipelineCandidate& c) {
          return std::pair(c.cuts.longest, c.per_micro_batch);
        };
        if (answer && (!best || rank(*answer) < rank(*best))) best = answer;
      }
    }
  }
  return best;
}

/// The map as a file: devices are "cpu", "disk" or a number.
void write_map(const ExportTask& task, const Cluster& cluster,
               const std::vector<std::pair<std::string, DeviceId>>& map) {
  const IdVector<DeviceId, std::string> words = accelerate_devices(cluster);
  ExportJson json = ExportJson::object();
  for (const auto& [name, device] : map) {
    const auto number = parse_number<std::size_t>(words[device]);
    json[name] = number ? ExportJson(*number) : ExportJson(words[device]);
  }
  write_file(task.path, json.dump(1) + "\n");
}

/// The table that 'place' prints is that of the placement op by op.
std::string peaks_of_map(const Cluster& cluster, const StepResult& step) {
  std::vector<std::string> peaks;
  for (const DeviceId d : cluster.devices())
    peaks.push_back(fmt::format("{} {}", cluster.device(d).name, to_text(step.devices[d].peak)));
  return fmt::format("peak memory of the map: {}\n", fmt::join(peaks, ", "));
}

/// The map of a placement whose weights wait: a module waits if most of its weights do, and runs on
/// the map's first GPU, as accelerate's dispatch_model has it. While that GPU is too small, one
/// more module waits: the one with the least (bytes that stay - bytes that wait); ties: the last.
std::string export_waiting(const ExportTask& task, const Placement& placement) {
  const Problem problem = task.experiment.problem();
  const WholeModules modules = whole_modules(problem.graph, {.no_split = task.no_split});
  std::vector<DeviceId> device = devices_of_modules(problem, modules, placement);
  // By the first of modules that are together; nothing where they have no weights.
  std::vector<std::optional<std::int64_t>> staying(device.size());
  std::vector<DeviceId> home = device;
  DeviceId host{};
  for (const OpId v : problem.graph.ops()) {
    const std::uint32_t m = modules.together[modules.of[v]];
    const std::int64_t held = problem.graph.op(v).persistent.count;
    if (held > 0) staying[m] = staying[m].value_or(0) + (placement.waits(v) ? -held : held);
    if (placement.waits(v)) host = placement.home[v];
    if (placement.waits(v) && home[m] == device[m]) home[m] = placement.home[v];
  }
  while (true) {
    std::vector<DeviceId> where = device, runs_on = device;
    for (std::size_t m = 0; m < device.size(); ++m)
      if (staying[modules.together[m]].value_or(0) < 0) where[m] = home[modules.together[m]];
    const auto map = device_map(modules, where);
    const auto first = std::ranges::find_if(
        map, [&](const auto& entry) { return problem.cluster.device(entry.second).computes(); });
    if (first == map.end())
      throw InputError("accelerate computes on the CPU where the weights of all modules wait");
    for (std::size_t m = 0; m < device.size(); ++m)
      if (where[m] != device[m]) runs_on[m] = first->second;
    Placement whole = place_on_modules(problem.graph, modules, runs_on);
    for (const OpId v : problem.graph.ops()) whole.home.push_back(where[modules.of[v]]);
    const StepResult step = task.experiment.step(std::move(whole)).simulate();
    if (!step.oom) {
      write_map(task, problem.cluster, map);
      return fmt::format("{} whole modules, some of whose weights wait: step time {}{}\n",
                         modules.num_whole, to_text(step.makespan),
                         price(task, placement, step.makespan)) +
             peaks_of_map(problem.cluster, step);
    }
    std::size_t next = device.size();
    for (std::size_t m = 0; m < device.size(); ++m)
      if (staying[m] >= 0 && (next == device.size() || staying[m] <= staying[next])) next = m;
    if (next == device.size())
      return fmt::format(
          "modules whose weights wait run on the map's first GPU, where they do not fit; nothing "
          "written to {}\n",
          task.path);
    staying[next] = -1;
    if (home[next] == device[next]) home[next] = host;
  }
}

std::string export_device_map(const ExportTask& task, const Placement& placement) {
  if (!placement.home.empty()) return export_waiting(task, placement);
  const Problem problem = task.experiment.problem();
  const WholeModules modules = whole_modules(problem.graph, {.no_split = task.no_split});
  const Experiment grouped = on_modules(task, modules);
  ModulePlacement best =
      simulate_modules(task, modules, devices_of_modules(problem, modules, placement), "rounded");
  const auto consider = [&](const Placer& placer, const char* how) {
    try {
      ModulePlacement other = simulate_modules(
          task, modules, devices_of_modules(problem, modules, grouped.place(placer, task.seed)),
          how);
      if (other.better_than(best)) best = std::move(other);
    } catch (const InfeasibleError&) {  // another may fit
    }
  };
  consider(task.placer, "placed module by module");
  if (!task.placer_name.starts_with("auto"))
    consider(*make_placer("auto"), "placed module by module by auto");
  consider(*search_from(place_on_modules(problem.graph, modules, best.device)),
           "placed module by module by search");
  if (best.step.oom) return refusal(task, modules, grouped);
  write_map(task, problem.cluster, device_map(modules, best.device));
  return fmt::format("{}: step time {}{}\n",
                     modules.num_whole == 0
                         ? "no op has a module: the model is whole on one device"
                         : fmt::format("{} whole modules, {}", modules.num_whole, best.how),
                     to_text(best.step.makespan), price(task, placement, best.step.makespan)) +
         peaks_of_map(problem.cluster, best.step);
}

/// What PyTorch 2.6 cannot run with gloo: of several transfers that start at once it waits for one.
std::string needs_nccl(const OpGraph& graph, const Placement& line, std::string_view schedule) {
  std::string why = schedule == "Schedule1F1B" ? "Schedule1F1B sends and receives at once" : "";
  std::map<std::pair<DeviceId, DeviceId>, std::set<TensorId>> crossing;
  for (const EdgeId e : graph.edges()) {
    const auto [src, dst, tensor] =
        std::tuple{graph.edge(e).src, graph.edge(e).dst, graph.edge(e).tensor};
    if (graph.tensor(tensor).control || graph.op(dst).phase != Phase::forward) continue;
    const std::pair pair{line.device[src], line.device[dst]};
    if (pair.first == pair.second) continue;
    crossing[pair].insert(tensor);
    if (why.empty() && crossing[pair].size() > 1)
      why =
          "several tensors go from one stage to another, such as a skip connection beside the main "
          "path";
  }
  return why.empty() ? "" : fmt::format("with gloo PyTorch 2.6 waits forever, use NCCL: {}\n", why);
}

std::string export_pipeline(const ExportTask& task, const Placement& placement) {
  const Problem problem = task.experiment.problem();
  const WholeModules all =
      whole_modules(problem.graph, {.no_split = task.no_split, .stages = true});
  const auto [modules, stage_module] = modules_of_stages(problem.graph, all);
  std::string why_not;
  const std::optional<PipelineCandidate> line = best_line(task, modules, why_not);
  if (!line) return fmt::format("no pipeline: {}; nothing written to {}\n", why_not, task.path);
  const PipelineCuts& cuts = line->cuts;
  ExportJson json{{"format", "baechi-pipelining"},      {"version", 1},
                  {"graph", task.graph_name},           {"stages", cuts.first.size()},
                  {"split_spec", ExportJson::object()}, {"stage_devices", ExportJson::array()},
                  {"schedule", line->schedule},         {"micro_batches", line->micro_batches},
                  {"modules", ExportJson::object()}};
  std::size_t stage = 0;
  for (std::size_t m = 0; m < all.num_whole; ++m) {
    if (stage + 1 < cuts.first.size() && cuts.first[stage + 1] == stage_module[m]) {
      json["split_spec"][all.names[m]] = "beginning";
      ++stage;
    }
    json["modules"][all.names[m]] = stage;
  }
  for (const DeviceId d : cuts.device) json["stage_devices"].push_back(index(d));
  write_file(task.path, json.dump(1) + "\n");
  const Placement placed = place_on_modules(problem.graph, modules, cuts.of_module);
  const std::string condition = needs_nccl(problem.graph, placed, line->schedule);
  const StepResult whole = task.experiment.step(placed).simulate();
  return fmt::format(
      "{} {} of {} modules between which PyTorch can cut, the longest {}, {} with {} "
      "micro-batches: {} per micro-batch; alone a step takes {}{}\n{}not yet split by PyTorch: "
      "python3 -m baechi_torch run MODULE:FUNCTION {} tries it\n",
      cuts.first.size(), cuts.first.size() == 1 ? "stage" : "stages", modules.names.size(),
      to_text(cuts.longest), line->schedule, line->micro_batches, to_text(line->per_micro_batch),
      to_text(whole.makespan), price(task, placement, whole.makespan), condition, task.path);
}

/// [gpus] Layers of each; with the output, if it counts.
std::vector<std::size_t> counts(const LayerSplit& split, bool output) {
  std::vector<std::size_t> count(split.gpus);
  for (const std::size_t d : split.device)
    if (d != LayerSplit::host) ++count[d];
  if (output && split.output != LayerSplit::host) ++count[split.output];
  return count;
}

/// [stages] The layers of each GPU up to that of the output.
std::vector<std::size_t> stages(const LayerSplit& split, std::string_view framework) {
  if (std::ranges::find(split.device, LayerSplit::host) != split.device.end())
    throw InputError(
        fmt::format("{} cannot say that layers are on the host: another split", framework));
  std::vector<std::size_t> all = counts(split, false);
  all.resize(std::max(split.output, split.device.back()) + 1);
  if (all.front() == 0)
    throw InputError(fmt::format("{} has the first layer on the first GPU", framework));
  return all;
}

/// ZeRO's configuration where all weights wait at one place, or all updates run there.
std::string deepspeed_config(const Problem& problem, const Placement& placement) {
  const OpGraph& graph = problem.graph;
  const IdVector<DeviceId, std::string> words = accelerate_devices(problem.cluster);
  const auto place = [&](OpId v) { return placement.waits(v) ? words[placement.home[v]] : ""; };
  ExportJson zero{{"stage", 2}};
  for (const Phase phase : {Phase::forward, Phase::update}) {
    const auto holds = [&](OpId v) {
      return graph.op(v).phase == phase &&
             (phase == Phase::update || graph.op(v).persistent > graph.cache(v));
    };
    const auto ops = graph.ops();
    const auto first = std::ranges::find_if(ops, holds);
    if (first == ops.end()) continue;
    for (const OpId v : ops)
      if (placement.device[v] != placement.device[OpId{}] ||
          (holds(v) && place(v) != place(*first)))
        throw InputError(
            fmt::format("DeepSpeed has all {} at one place, and not those of op '{}' elsewhere",
                        phase == Phase::update ? "updates" : "weights", graph.name(v)));
    if (place(*first).empty()) continue;
    const char* device = place(*first) == "disk" ? "nvme" : "cpu";
    if (phase == Phase::update)
      zero["offload_optimizer"] = {{"device", device}};
    else
      zero = zero_of_waiting_weights(device, placement.prefetch);
  }
  if (zero.size() == 1)
    throw InputError("DeepSpeed's configuration says what waits on a host or disk: nothing does");
  return deepspeed_file(zero);
}

}  // namespace

void require_modules(const Experiment& experiment, ExportFormat format, const std::string& trace) {
  if (format == ExportFormat::json || format == ExportFormat::accelerate ||
      format == ExportFormat::deepspeed || experiment.problem().graph.has_modules())
    return;
  throw InputError(fmt::format(
      "{}: no op has a module of the model (key `module` of an op), so it cannot be exported by "
      "module: tools/baechi_torch.py and generators write it, if the model has inner modules",
      trace));
}

std::string export_placement(ExportFormat format, const ExportTask& task,
                             const Placement& placement) {
  if (format == ExportFormat::accelerate) return export_device_map(task, placement);
  const Problem problem = task.experiment.problem();
  if (format == ExportFormat::deepspeed) {
    write_file(task.path, deepspeed_config(problem, placement) + "\n");
    return "";
  }
  for (const OpId v : placement.home.ids())
    if (format != ExportFormat::json && placement.waits(v))
      throw InputError(fmt::format("{} cannot say that weights wait, as those of op '{}' do",
                                   to_text(format), problem.graph.name(v)));
  if (format == ExportFormat::pipelining) return export_pipeline(task, placement);
  if (format != ExportFormat::json) {
    const LayerSplit split = layer_split(problem, placement);
    write_file(task.path, (format == ExportFormat::llamacpp ? llama_cpp_split(split)
                           : format == ExportFormat::vllm   ? vllm_split(split, task.graph_name)
                                                            : megatron_split(split)) +
                              "\n");
    return "";
  }
  write_placement(task.path, placement, problem.graph, task.graph_name,
                  problem.cluster.num_devices());
  return "";
}

LayerSplit layer_split(const Problem& problem, const Placement& placement) {
  const OpGraph& graph = problem.graph;
  const ModelLayers layers(graph, [](OpId) { return false; });
  std::vector<std::size_t> number(problem.cluster.num_devices(), LayerSplit::host);
  LayerSplit split;
  for (const DeviceId d : problem.cluster.devices())
    if (!problem.cluster.device(d).is_cpu()) number[index(d)] = split.gpus++;
  const auto first = std::ranges::find_if(layers.names, is_numbered);
  if (first == layers.names.end())
    throw InputError("no module of the graph is a numbered layer, such as layers.0");
  const auto before = static_cast<std::size_t>(first - layers.names.begin());
  std::vector<OpId> op(layers.size(), no_op);
  std::size_t last = LayerSplit::host;
  const auto refuse = [&](OpId v, std::string_view why) {
    throw InputError(fmt::format("op '{}' is on {}, {}", graph.name(v),
                                 problem.cluster.device(placement.device[v]).name, why));
  };
  for (const OpId v : graph.ops()) {
    const std::size_t layer = layers.of[v], on = number[index(placement.device[v])];
    if (layer < before) continue;
    if (op[layer] != no_op) {
      if (placement.device[op[layer]] != placement.device[v])
        refuse(v, fmt::format(
                      "and op '{}' of its layer elsewhere; --placer ggml_split keeps layers whole",
                      graph.name(op[layer])));
      continue;
    }
    op[layer] = v;
    if (last != LayerSplit::host && (on == LayerSplit::host || on < last))
      refuse(v, "before the device of an earlier layer: the framework has them in order");
    last = on;
    if (is_numbered(layers.names[layer]))
      split.device.push_back(on);
    else
      split.output = on;
  }
  return split;
}

nlohmann::ordered_json zero_of_waiting_weights(const char* device, std::int64_t prefetch) {
  ExportJson zero{{"stage", 3}, {"offload_param", {{"device", device}}}};
  if (prefetch == 0) zero["stage3_prefetch_bucket_size"] = 0;
  return zero;
}

std::string deepspeed_file(const nlohmann::ordered_json& zero) {
  return ExportJson{{"zero_optimization", zero}}.dump(1);
}

std::size_t layers_on_gpus(const LayerSplit& split) {
  std::size_t all = 0;
  for (const std::size_t n : counts(split, true)) all += n;
  return all;
}

std::string llama_cpp_split(const LayerSplit& split) {
  const std::vector<std::size_t> count = counts(split, true);
  return fmt::format("-ngl {}", layers_on_gpus(split)) +
         (count.size() > 1 ? fmt::format(" -ts {}", fmt::join(count, ",")) : "");
}

std::string vllm_split(const LayerSplit& split, std::string_view model) {
  const std::vector<std::size_t> count = stages(split, "vLLM");
  return fmt::format("VLLM_PP_LAYER_PARTITION={} vllm serve {} --pipeline-parallel-size {}",
                     fmt::join(count, ","), model, count.size());
}

std::string megatron_split(const LayerSplit& split) {
  std::string layout = "E";
  for (const std::size_t n : stages(split, "Megatron-LM"))
    layout += fmt::format("{}t*{}", layout == "E" ? "" : "|", n);
  return fmt::format("--pipeline-model-parallel-layout '{}L'", layout);
}

}  // namespace baechi
