#include "cli/arguments.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/progress.h"
#include "scenarios/read/paths.h"
#include "traces/format/compressed_file.h"
#include "traces/importer.h"

namespace baechi {
void add_trace_argument(CLI::App& verb, TraceArgument& argument) {
  add_argument(
      verb, "TRACE", argument.path,
      "Graph file, in any format that an importer reads; or a generator with options, such as "
      "llama:config=8b ('baechi list generators'); a model such as Qwen/Qwen2.5-7B ('baechi list "
      "models'); config.json of Hugging Face, or a GGUF file");
  add_value(verb, "--importer", argument.importer, "NAME[:k=v,...]",
            "Importer for TRACE ('baechi list importers') [chosen by the file's content]");
}

Trace read_trace(const TraceArgument& argument) {
  if (argument.importer.empty())
    if (std::optional<Trace> generated = load_generator_words(argument.path))
      return std::move(*generated);
  Choice importer;
  if (!argument.importer.empty()) importer = parse_choice(argument.importer, "--importer");
  TextFile file(with_data_folder(argument.path), Content::any);
  const Stage stage("reading " + argument.path, &file.bytes_read(), file.bytes());
  Trace trace = read_trace(file, importer.name, std::move(importer.options));
  if (trace.name.empty()) trace.name = std::filesystem::path(argument.path).stem().string();
  return trace;
}

void add_format(CLI::App& verb, std::string& format, std::vector<std::string> formats) {
  format = formats.front();
  const std::string allowed = fmt::format("{}", fmt::join(formats, "|"));
  verb.add_option("--format", format, "Format of the answer [" + format + "]")
      ->type_name(allowed)
      ->check(CLI::Validator(
          [formats](const std::string& text) {
            if (std::ranges::find(formats, text) != formats.end()) return std::string();
            return not_one_of(text, formats);
          },
          ""));
}

CLI::Validator is_seed() {
  return {[](const std::string& text) {
            const auto seed = parse_number<std::int64_t>(text);
            if (seed && *seed >= 0) return std::string();
            return fmt::format("'{}' is not a whole number from 0 to {}", text,
                               std::numeric_limits<std::int64_t>::max());
          },
          ""};
}

namespace {

/// Lists the names of the enum E with their meanings, then the default:
/// "event (strictly by time, ...), baechi (...) [event]".
template <NamedEnum E>
std::string list_choices(E fallback) {
  std::string text;
  for (const E e : all<E>())
    text += fmt::format("{}{} ({})", text.empty() ? "" : ", ", to_text(e), meaning(e));
  return fmt::format("{} [{}]", text, to_text(fallback));
}

}  // namespace

void add_cluster_flags(CLI::App& verb, PlatformFlags& flags) {
  const auto add = [&verb](const char* name, std::string& text, const char* type,
                           const std::string& help) {
    return verb.add_option(name, text, help)->type_name(type)->group("CLUSTER");
  };
  const std::vector<CLI::Option*> options{
      add("--devices,--gpus", flags.devices, "N|LIST",
          "Number of devices, or a list of device types: 2xrtx_4090,1xrtx_3060"),
      add("--kind", flags.kind, "NAME",
          "Device type: one with times in TRACE or, if TRACE has the ops' work, one of 'baechi "
          "list devices' [the first one in TRACE]"),
      add("--memory", flags.memory, "SIZE,...",
          "Memory of each device, such as '8 GiB' or 24G, or a list by device [of its type]"),
      add("--cpu-memory", flags.cpu_memory, "SIZE",
          "Memory of the host where weights may wait if the devices are too small [none]"),
      add("--disk", flags.disk, "RATE",
          "Rate of a disk, such as '3.5 GB/s', where weights may wait, too [none]"),
      add("--host-link", flags.host_link, "NAME",
          "Link between a device and the host ('baechi list links') [pcie4_h2d]"),
      add("--memory-fraction", flags.memory_fraction, "F",
          "Fraction of the memory that may be used, in (0, 1] [1]"),
      add("--link", flags.link, "NAME", "Link type between any two devices ('baechi list links')"),
      add("--bandwidth", flags.bandwidth, "B/s",
          "Bandwidth of the link between any two devices [of --link, else 5.7 GB/s, Baechi's fit "
          "of PCIe]"),
      add("--latency", flags.latency, "T",
          "Latency of each transfer [of --link, else 134 us, Baechi's fit]"),
      add("--transfers", flags.transfers, "M",
          "Which transfers may run concurrently: " + list_choices(Transfers::sequential)),
      add("--semantics", flags.semantics, "S",
          "How a step is simulated: " + list_choices(Semantics::event)),
      add("--queue", flags.queue, "Q",
          "Which ready op of a device runs first: " + list_choices(ReadyOrder::fifo)),
      add("--collectives", flags.collectives, "NAME",
          "Cost model of collectives: NAME[:option=value,...] of 'baechi list collective_models', "
          "or a name of 'baechi list collective_kinds' [ring]"),
      verb.add_flag("--no-cache", flags.no_cache,
                    "Send a tensor to a device once per reader instead of once")
          ->group("CLUSTER"),
      verb.add_flag("--no-overlap", flags.no_overlap,
                    "Do not overlap a device's compute and transfers")
          ->group("CLUSTER")};
  CLI::Option* scenario =
      add("--scenario", flags.scenario, "FILE",
          "Use this scenario's cluster, engine and transforms instead of the flags above");
  for (CLI::Option* option : options) scenario->excludes(option);
  add_repeated(verb, "--set", flags.sets, "KEY=VALUE",
               "Set the dotted KEY of the scenario to VALUE first")
      ->needs(scenario)
      ->group("CLUSTER");
}

TraceExperiment read_experiment(const TraceArgument& argument, const PlatformFlags& flags,
                                std::optional<std::vector<TransformChoice>> transforms) {
  std::optional<Platform> platform;
  if (!flags.scenario.empty() || names_cluster(flags)) platform = read_platform(flags);
  if (platform) fmt::print(stderr, "{}", platform->note);
  Trace trace = read_trace(argument);
  for (const std::string& note : trace.notes)
    if (note.starts_with("warning: ")) fmt::print(stderr, "{}: {}\n", argument.path, note);
  return experiment_on(std::move(platform), flags, std::move(trace), argument.path,
                       std::move(transforms));
}

std::string times_line(const Experiment& experiment) {
  const PreparedGraph& graph = experiment.graph();
  std::string text;
  for (const DeviceChoice& d : experiment.cluster_choice().devices)
    if (!d.named.empty())
      text += fmt::format(
          "device type  {}, as PyTorch made the trace; a scenario's kind '{}' is taken as it is\n",
          d.kind, d.named);
  if (!graph.assumed_kind.empty())
    text = fmt::format(
        "assumed      {}: no op has a measured time; --kind NAME sets another device type\n",
        graph.assumed_kind);
  else if (!graph.kind_without_times.empty())
    text = fmt::format(
        "times        of the trace, one per op for all device types; none is measured on '{}'\n",
        graph.kind_without_times);
  return text + evidence_line(evidence_of(graph, experiment.cluster_choice()));
}

nlohmann::ordered_json evidence_json(const std::vector<Evidence>& evidence) {
  nlohmann::ordered_json list = nlohmann::ordered_json::array();
  for (const Evidence& e : evidence) list.push_back({{"of", e.of}, {"fitted", e.fitted}});
  return list;
}

void add_times(nlohmann::ordered_json& json, const Experiment& experiment) {
  const PreparedGraph& graph = experiment.graph();
  if (!graph.assumed_kind.empty()) json["assumed_kind"] = graph.assumed_kind;
  if (!graph.kind_without_times.empty()) json["kind_without_times"] = graph.kind_without_times;
  json["evidence"] = evidence_json(evidence_of(graph, experiment.cluster_choice()));
}

}  // namespace baechi
