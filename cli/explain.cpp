#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/step_text.h"
#include "scenarios/run/runner.h"
#include "sim/explain/explanation.h"

namespace baechi {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t max_listed = 12;  // rows in text tables

std::string_view meaning_of(PathKind kind) {
  return names_of(PathKind{})[static_cast<std::size_t>(kind)].meaning;
}

/// "'conv5' on gpu1", "output of 'conv5', gpu0 to gpu1", "'relu', queued after 'conv5' on gpu1".
std::string describe_part(const PathPart& part, const Problem& problem) {
  const std::string_view name = problem.graph.name(part.op);
  const std::string& device = problem.cluster.device(part.device).name;
  if (part.tensor)
    return fmt::format("output of '{}' ({}), {} to {}", name,
                       to_text(problem.graph.tensor(*part.tensor).size), device,
                       problem.cluster.device(part.to).name);
  if (part.kind != PathKind::wait_device) return fmt::format("'{}' on {}", name, device);
  if (part.behind == no_op) return fmt::format("'{}', on {}", name, device);
  return fmt::format("'{}', queued after '{}' on {}", name, problem.graph.name(part.behind),
                     device);
}

std::string what_if_text(const Explanation& e) {
  Columns columns({"the step is", "", ""});
  const auto line = [&](std::string name, Duration time) {
    columns.add({std::move(name), to_text(time), percent(time, e.step_time)});
  };
  line("its longest path: unlimited devices, free transfers", e.what_if.dependencies);
  line("+ devices run one op at a time, transfers still free", e.what_if.devices);
  line("+ transfers, and ops that wait for them", e.what_if.transfers);
  line("= step time", e.step_time);
  return columns.text();
}

std::string path_text(const Explanation& e, const Problem& problem) {
  std::array<Duration, num_path_kinds> by_kind{};
  std::array<std::size_t, num_path_kinds> parts{};
  for (const PathPart& part : e.critical_path) {
    by_kind[static_cast<std::size_t>(part.kind)] += part.length();
    ++parts[static_cast<std::size_t>(part.kind)];
  }
  Columns kinds({"critical path", "time", "", "parts"});
  for (const auto& [kind, word, meaning] : names_of(PathKind{})) {
    const auto k = static_cast<std::size_t>(kind);
    if (parts[k] == 0) continue;
    kinds.add({std::string(meaning), to_text(by_kind[k]), percent(by_kind[k], e.step_time),
               fmt::format("{}", parts[k])});
  }
  std::vector<PathPart> longest = e.critical_path;
  std::ranges::stable_sort(longest, std::greater{}, &PathPart::length);
  longest.resize(std::min(longest.size(), max_listed));
  std::ranges::stable_sort(longest, {}, &PathPart::start);
  std::string text = kinds.text() + "\nits longest parts, by start\n";
  for (const PathPart& part : longest)
    text +=
        fmt::format("  {:>12}  {:>12}  {}: {}\n", to_text(part.start.time_since_epoch()),
                    to_text(part.length()), meaning_of(part.kind), describe_part(part, problem));
  return text;
}

std::string idle_text(const Explanation& e, const Problem& problem) {
  Columns columns({"device", "busy", "idle for: transfers", "channels", "other ops", "other queues",
                   "collectives", "nothing left"});
  for (const DeviceId d : problem.cluster.devices()) {
    const DeviceIdle& idle = e.devices[d];
    const auto cell = [&](PathKind kind) {
      return percent(idle.waiting[static_cast<std::size_t>(kind)], e.step_time);
    };
    columns.add({problem.cluster.device(d).name, percent(idle.busy, e.step_time),
                 cell(PathKind::transfer), cell(PathKind::wait_channel), cell(PathKind::compute),
                 cell(PathKind::wait_device), cell(PathKind::collective),
                 percent(idle.nothing_left, e.step_time)});
  }
  return columns.text() +
         "idle for: what delayed the next op of the device. Other ops: an input was being "
         "computed\n"
         "elsewhere; other queues: the op that computes it was queued on its device.\n";
}

std::string tensors_text(const Explanation& e, const Problem& problem) {
  if (e.blocking.empty()) return "";
  std::string text = "tensors with most idle time of devices (transfer, wait for a channel)\n";
  for (const BlockingTensor& t : e.blocking | std::views::take(max_listed)) {
    const Tensor& tensor = problem.graph.tensor(t.tensor);
    text +=
        fmt::format("  {:>12}  {:>12}  output of '{}' ({}), {} to {}\n", to_text(t.moving),
                    to_text(t.waiting), problem.graph.name(tensor.producer), to_text(tensor.size),
                    problem.cluster.device(t.src).name, problem.cluster.device(t.dst).name);
  }
  if (e.blocking.size() > max_listed)
    text += fmt::format("  ... and {} more\n", e.blocking.size() - max_listed);
  return text;
}

std::string percent_or_dash(std::optional<double> share) {
  return share ? fmt::format("{:.1f} %", 100.0 * *share) : "-";
}

Json parts_json(const Utilisation& used) {
  const auto number = [](std::optional<double> value) { return value ? Json(*value) : Json(); };
  Json json;
  for (const auto& [word, part] : utilisation_parts) json[std::string(word)] = number(used.*part);
  json["intensity"] = number(used.intensity());
  return json;
}

std::string kept_text(const LiveTensor& tensor, const Problem& problem) {
  if (tensor.kind == MemoryKind::weights) return "for the whole step";
  if (tensor.kind == MemoryKind::workspace) return "while it runs";
  std::string text;
  if (!tensor.kept_by.empty()) {
    text = fmt::format("read by '{}'", problem.graph.name(tensor.kept_by.back()));
    if (tensor.kept_by.size() > 1) text += fmt::format(" and {} more", tensor.kept_by.size() - 1);
  }
  if (!tensor.leaving.empty())
    text += fmt::format("{}to be sent to {}", text.empty() ? "" : ", ",
                        problem.cluster.device(tensor.leaving.front()).name);
  return text.empty() ? "being written" : text;
}

/// Step time by cause; the critical path by kind, and its longest parts by start; idle time of each
/// device by cause; the tensors with most waiting time.
std::string explanation_text(const Explanation& e, const Problem& problem) {
  const std::string tensors = tensors_text(e, problem);
  return fmt::format("step time    {}\n\n", bold(to_text(e.step_time))) + what_if_text(e) + "\n" +
         path_text(e, problem) + "\n" + idle_text(e, problem) +
         (tensors.empty() ? "" : "\n" + tensors);
}

/// {"step_time_us", "critical_path": [{"kind", "name", "us", "start_us", "device", ...}],
/// "what_if", "devices", "tensors"}. The us of critical_path add up to step_time_us, and so do
/// those of what_if.
Json explanation_json(const Explanation& e, const Problem& problem) {
  const auto device = [&](DeviceId d) { return problem.cluster.device(d).name; };
  Json path = Json::array();
  for (const PathPart& part : e.critical_path) {
    Json json{{"kind", to_text(part.kind)},
              {"name", problem.graph.name(part.op)},
              {"us", to_us(part.length())},
              {"start_us", to_us(part.start.time_since_epoch())},
              {"device", device(part.device)}};
    if (part.tensor) {
      json["to"] = device(part.to);
      json["bytes"] = problem.graph.tensor(*part.tensor).size.count;
    }
    if (part.behind != no_op) json["behind"] = problem.graph.name(part.behind);
    path.push_back(std::move(json));
  }
  Json devices = Json::array();
  for (const DeviceId d : problem.cluster.devices()) {
    Json idle;
    for (const auto& [kind, word, meaning] : names_of(PathKind{}))
      idle[std::string(word)] = to_us(e.devices[d].waiting[static_cast<std::size_t>(kind)]);
    idle["nothing_left"] = to_us(e.devices[d].nothing_left);
    devices.push_back(
        {{"name", device(d)}, {"busy_us", to_us(e.devices[d].busy)}, {"idle_us", idle}});
  }
  Json tensors = Json::array();
  for (const BlockingTensor& t : e.blocking) {
    const Tensor& tensor = problem.graph.tensor(t.tensor);
    tensors.push_back({{"name", problem.graph.name(tensor.producer)},
                       {"bytes", tensor.size.count},
                       {"from", device(t.src)},
                       {"to", device(t.dst)},
                       {"transfer_us", to_us(t.moving)},
                       {"wait_channel_us", to_us(t.waiting)}});
  }
  const auto line = [](const char* name, Duration time) {
    return Json{{"name", name}, {"us", to_us(time)}};
  };
  return {{"step_time_us", to_us(e.step_time)},
          {"critical_path", std::move(path)},
          {"what_if",
           {line("longest_path", e.what_if.dependencies),
            line("limited_devices", e.what_if.devices), line("transfers", e.what_if.transfers)}},
          {"devices", std::move(devices)},
          {"tensors", std::move(tensors)}};
}

/// A row per device and one for all; "" if no op has known work.
std::string utilisation_text(const StepUtilisation& used, Duration step, const Problem& problem) {
  if (!used.step.flops) return "";
  Columns columns({"device", "TFLOP/s", "of peak", "while busy", "of bandwidth", "flop/byte",
                   "bound by: compute", "memory", "launches"});
  const auto line = [&](std::string name, const Utilisation& u) {
    columns.add({std::move(name), fmt::format("{:.3g}", *u.flops / (to_us(step) * 1e6)),
                 percent_or_dash(u.flops_of_step), percent_or_dash(u.flops_of_busy),
                 percent_or_dash(u.traffic_of_step),
                 u.intensity() ? fmt::format("{:.3g}", *u.intensity()) : "-",
                 percent_or_dash(u.compute_bound), percent_or_dash(u.memory_bound),
                 percent_or_dash(u.launch_bound)});
  };
  for (const DeviceId d : problem.cluster.devices())
    line(problem.cluster.device(d).name, used.devices[d]);
  if (problem.cluster.num_devices() > 1) line("all", used.step);
  return columns.text() +
         "of peak, of bandwidth: relative to the device's data sheet over the whole step. Bound "
         "by: the\n"
         "fraction of op time that is limited by each.\n";
}

/// {"step": {"busy", "flops", ..., "intensity"}, "devices": [{"name", "busy", ...}]} with the names
/// of results.csv; null if unknown.
Json utilisation_json(const StepUtilisation& used, const Problem& problem) {
  Json devices = Json::array();
  for (const DeviceId d : problem.cluster.devices()) {
    Json json{{"name", problem.cluster.device(d).name}};
    json.update(parts_json(used.devices[d]));
    devices.push_back(std::move(json));
  }
  return {{"step", parts_json(used.step)}, {"devices", std::move(devices)}};
}

/// The largest tensors on the device that ran out of memory, and what keeps them live.
std::string live_text(const std::vector<LiveTensor>& live, const OutOfMemory& oom,
                      const Problem& problem) {
  std::string text = fmt::format("largest allocations in the memory of {}\n",
                                 problem.cluster.device(oom.device).name);
  Bytes shown;
  for (const LiveTensor& tensor : live | std::views::take(max_listed)) {
    text += fmt::format("  {:>12}  {} of '{}', {}\n", to_text(tensor.size), to_text(tensor.kind),
                        problem.graph.name(tensor.op), kept_text(tensor, problem));
    shown += tensor.size;
  }
  if (live.size() > max_listed)
    text += fmt::format("  {:>12}  in {} smaller ones\n", to_text(oom.live.total() - shown),
                        live.size() - max_listed);
  return text;
}

Json live_json(const std::vector<LiveTensor>& live, const Problem& problem) {
  Json json = Json::array();
  for (const LiveTensor& tensor : live) {
    Json readers = Json::array(), leaving = Json::array();
    for (const OpId v : tensor.kept_by) readers.push_back(problem.graph.name(v));
    for (const DeviceId d : tensor.leaving) leaving.push_back(problem.cluster.device(d).name);
    json.push_back({{"kind", to_text(tensor.kind)},
                    {"name", problem.graph.name(tensor.op)},
                    {"bytes", tensor.size.count},
                    {"kept_by", std::move(readers)},
                    {"to_be_sent_to", std::move(leaving)}});
  }
  return json;
}

struct ExplainArguments {
  TraceArgument trace;
  PlatformFlags cluster;
  std::string placement, run, against, format;
};

StepResult without_limit(const Problem& problem, const Placement& placement) {
  EngineOptions engine = problem.engine;
  engine.enforce_memory = false;
  return simulate({problem.graph, problem.cluster, problem.costs, engine}, placement);
}

void print_oom(const Problem& problem, const Placement& placement, const Timeline& timeline,
               const OutOfMemory& oom, bool as_json) {
  const std::vector<LiveTensor> live = live_tensors(problem, placement, timeline, oom);
  const Duration unlimited = without_limit(problem, placement).makespan;
  if (!as_json) {
    print_out(fmt::format("{}\nwithout memory limits the step would take {}\n\n{}",
                          red(sentence(oom, problem, placement)), to_text(unlimited),
                          live_text(live, oom, problem)));
    return;
  }
  Json json{{"status", to_text(Status::oom)},
            {"step_time_us", nullptr},
            {"without_limit_us", to_us(unlimited)},
            {"critical_path", Json::array()},
            {"oom",
             {{"device", problem.cluster.device(oom.device).name},
              {"at_us", to_us(oom.at.time_since_epoch())},
              {"name", problem.graph.name(oom.op)},
              {"needed_bytes", oom.needed.count},
              {"free_bytes", oom.free.count},
              {"live", live_json(live, problem)}}}};
  print_json(json);
}

std::vector<ReplayedRun> subjects_of(const ExplainArguments& arguments) {
  std::vector<std::string> wanted{arguments.run.empty() ? arguments.placement : arguments.run};
  if (!arguments.against.empty()) wanted.push_back(arguments.against);
  std::vector<ReplayedRun> subjects;
  if (!arguments.run.empty()) {
    subjects = runs_again(arguments.trace.path, wanted);
  } else if (!arguments.placement.empty()) {
    const Experiment experiment = read_experiment(arguments.trace, arguments.cluster).experiment;
    for (const std::string& path : wanted)
      subjects.push_back({path, experiment,
                          experiment.step(read_placement(path, experiment.problem(), "explain"))});
  } else {
    throw InputError("explain needs --placement FILE, or a folder of results and --run ID");
  }
  for (const ReplayedRun& subject : subjects)
    if (subject.experiment.problem().engine.semantics != Semantics::event)
      throw InputError("explain needs engine semantics 'event'");
  return subjects;
}

/// Two steps side by side, without memory limits: the kinds of parts of their critical paths add up
/// to their times, so that the differences add up, too.
int explain_both(const std::vector<ReplayedRun>& subjects, bool as_json) {
  Json json{{"status", to_text(Status::ok)}}, steps;
  Report table(
      {{"", "critical path"}, {"", subjects[0].name}, {"", subjects[1].name}, {"", "difference"}});
  std::array<UnlimitedPathTimes, 2> times{};
  std::string notes;
  for (std::size_t i = 0; i < subjects.size(); ++i) {
    const Problem problem = subjects[i].step.problem();
    if (const auto oom = subjects[i].step.simulate().oom) {
      json["status"] = to_text(Status::oom);
      notes += fmt::format("{}: {}\n", subjects[i].name,
                           red(sentence(*oom, problem, subjects[i].step.placement())));
    }
    times[i] = unlimited_path_times(problem, subjects[i].step.placement());
  }
  const auto line = [&](std::size_t k, std::string_view word, std::string_view meaning) {
    const Duration difference = times[1][k] - times[0][k];
    table.add({meaning, times[0][k], times[1][k],
               (difference > Duration{} ? "+" : "") + to_text(difference)});
    for (std::size_t i = 0; i < 2; ++i) steps[i][std::string(word)] = to_us(times[i][k]);
    json["difference"][std::string(word)] = to_us(difference);
  };
  for (std::size_t i = 0; i < 2; ++i) steps[i]["name"] = subjects[i].name;
  for (const auto& [kind, word, meaning] : names_of(PathKind{}))
    line(static_cast<std::size_t>(kind), word, meaning);
  line(num_path_kinds, "step_time_us", "step time");
  if (as_json) {
    json["steps"] = std::move(steps);
    print_json(json);
  } else {
    print_out(notes + (notes.empty() ? "" : "without memory limits:\n") + table.table());
  }
  return 0;
}

int explain_once(const ExplainArguments& arguments) {
  const std::vector<ReplayedRun> subjects = subjects_of(arguments);
  const bool as_json = arguments.format == "json";
  if (subjects.size() == 2) return explain_both(subjects, as_json);
  const auto& [name, experiment, step] = subjects.front();
  const Problem problem = step.problem();
  Timeline timeline;
  std::vector<StepObserver*> observers{&timeline};
  const StepResult result = step.simulate(observers);
  if (result.oom) {
    print_oom(problem, step.placement(), timeline, *result.oom, as_json);
    return 0;
  }
  const Explanation explanation = explain(problem, step.placement(), timeline, result);
  std::vector<Duration> busy;
  for (const DeviceUse& use : result.devices) busy.push_back(use.busy);
  const StepUtilisation used =
      utilisation(problem, step.placement(), step.device_models(), result.makespan, busy);
  if (as_json) {
    Json json{{"status", "ok"}};
    json.update(explanation_json(explanation, problem));
    add_times(json, experiment);
    json["utilisation"] = utilisation_json(used, problem);
    print_json(json);
  } else {
    const std::string parts = utilisation_text(used, result.makespan, problem);
    print_out(times_line(experiment) + explanation_text(explanation, problem) +
              (parts.empty() ? "" : "\n" + parts));
  }
  return 0;
}

}  // namespace

void add_explain(CLI::App& app, Verb& chosen) {
  const auto [verb, arguments] = add_verb(
      app, chosen, "explain",
      "Show where a placed graph's step time goes, or what fills the memory", explain_once);
  add_trace_argument(*verb, arguments->trace);
  CLI::Option* placement =
      add_value(*verb, "--placement", arguments->placement, "FILE", "Placement file");
  CLI::Option* run = add_value(*verb, "--run", arguments->run, "ID",
                               "Explain run ID (column id of results.csv) of the folder TRACE that "
                               "'baechi run' wrote")
                         ->excludes(placement);
  add_value(*verb, "--against", arguments->against, "FILE|ID",
            "Compare with the step of this placement file or, with --run, of this run: the "
            "difference by cause, which adds up");
  add_format(*verb, arguments->format, {"table", "json"});
  add_cluster_flags(*verb, arguments->cluster);
  for (CLI::Option* option : verb->get_options())
    if (option->get_group() == "CLUSTER") run->excludes(option);
  verb->footer(
      "The critical path is traced back from the last op to its last input, to the producer of\n"
      "that input, and so on. Waiting times are part of it, so its parts add up to the step time.\n"
      "Ops do not wait for memory: if an allocation fails, the step ends.\n"
      "Examples:\n"
      "  baechi explain graph.json --placement placement.json --devices 4 --memory '8 GiB'\n"
      "  baechi explain results/first --run 3 --against 5");
}

}  // namespace baechi
