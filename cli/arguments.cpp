#include "cli/arguments.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "cli/progress.h"
#include "placers/framework_placement.h"
#include "scenarios/read/paths.h"
#include "sim/collectives/collective_models.h"
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

// The Baechi authors' linear fit of transfers over PCIe: 134 us plus 0.1754 us per kB.
constexpr Link default_link{.bandwidth = {5.7e9}, .latency = std::chrono::microseconds(134)};

class FlagReader {
 public:
  /// The parsed value, or `fallback` if the flag is missing or `parse` rejects it.
  template <class T>
  T read(std::string_view flag, const std::string& text, T fallback,
         std::optional<T> (*parse)(std::string_view), std::string_view example) {
    if (text.empty()) return fallback;
    if (const std::optional<T> value = parse(text)) return *value;
    mistakes_.add(fmt::format("{}: '{}' is not {}", flag, text, example));
    return fallback;
  }

  template <NamedEnum E>
  E read(std::string_view flag, const std::string& text, E fallback) {
    if (text.empty()) return fallback;
    if (const std::optional<E> value = parse<E>(text)) return *value;
    constexpr auto known = all_words<E>();
    not_one_of(flag, text, {known.begin(), known.end()});
    return fallback;
  }

  template <class T>
  T one_of(std::string_view flag, const std::string& text, const std::map<std::string, T>& values) {
    if (const auto it = values.find(text); it != values.end()) return it->second;
    not_one_of(flag, text, keys_of(values));
    return {};
  }

  Mistakes& mistakes() { return mistakes_; }
  void throw_if_any() const { mistakes_.throw_if_any(); }

 private:
  void not_one_of(std::string_view flag, const std::string& text,
                  const std::vector<std::string>& known) {
    mistakes_.add(fmt::format("{}: {}", flag, baechi::not_one_of(text, known)));
  }

  Mistakes mistakes_;
};

/// Reads the scenario's first point. If points differ in more than the graph, prints the values of
/// the first point on standard error.
Platform from_scenario(const std::string& path, const std::vector<std::string>& sets) {
  const ScenarioFile file = load_scenario(with_data_folder(path), sets);
  const Scenario& first = file.point(0);
  std::string left_open;
  for (std::size_t i = 0; i < file.axes.size(); ++i) {
    if (!file.axes[i].starts_with("graph"))
      left_open += fmt::format(" --set '{}={}'", file.axes[i], first.at[i]);
  }
  if (!left_open.empty())
    fmt::print(stderr, "the first point of the sweep in {}:{}\n", path, left_open);
  return {first.cluster, first.engine, first.transforms};
}

EngineOptions read_engine(const ClusterFlags& flags, FlagReader& reader) {
  EngineOptions engine;
  engine.transfers = reader.read("--transfers", flags.transfers, engine.transfers);
  engine.semantics = reader.read("--semantics", flags.semantics, engine.semantics);
  engine.queue = reader.read("--queue", flags.queue, engine.queue);
  engine.cache_tensors = !flags.no_cache;
  engine.overlap = !flags.no_overlap;
  return engine;
}

double read_fraction(const ClusterFlags& flags, FlagReader& reader) {
  return reader.read<double>("--memory-fraction", flags.memory_fraction, 1.0, parse_number<double>,
                             "a number in (0, 1]");
}

/// Parses NAME[:option=value,...] or a name of 'baechi list collective_kinds'.
void read_collectives(const ClusterFlags& flags, ClusterChoice& cluster) {
  if (flags.collectives.empty()) return;
  const auto& kinds = built_in_devices().collectives;
  const Choice choice = parse_choice(flags.collectives, "--collectives");
  const auto kind = kinds.find(choice.name);
  cluster.collectives = kind != kinds.end()
                            ? make_collectives(kind->second.section)
                            : make_collectives(choice.name, choice.options, "--collectives");
}

Platform from_flags(const ClusterFlags& flags) {
  FlagReader reader;
  Platform platform;
  if (flags.devices.empty())
    reader.mistakes().add(
        "--devices is missing, such as '--devices 4' or '--devices 2xrtx_4090,1xrtx_3060' (or give "
        "--scenario FILE)");
  platform.cluster.devices = read_device_words(
      {.devices = flags.devices, .kind = flags.kind, .memory = flags.memory, .prefix = "--"},
      reader.mistakes());
  platform.cluster.memory_fraction = read_fraction(flags, reader);
  Link link = default_link;
  if (!flags.link.empty())
    link = reader.one_of("--link", flags.link, built_in_devices().links).link;
  platform.cluster.link.bandwidth =
      reader.read<Bandwidth>("--bandwidth", flags.bandwidth, link.bandwidth, parse_bandwidth,
                             "a rate such as '5.7 GB/s'" + unit_advice(flags.bandwidth, "/s"));
  platform.cluster.link.latency = reader.read<Duration>("--latency", flags.latency, link.latency,
                                                        parse_duration, "a time such as '134 us'");
  std::size_t devices = 0;
  bool is_known_type = false;
  for (const DeviceChoice& d : platform.cluster.devices) {
    devices += d.count;
    is_known_type = is_known_type || d.model != nullptr;
  }
  if (flags.link.empty() && flags.bandwidth.empty() && flags.latency.empty() && devices > 1 &&
      is_known_type)
    platform.cluster.evidence.push_back(
        {"link", fmt::format("as no --link is given, Baechi's fit of PCIe in 2020, {} and {}",
                             to_text(default_link.bandwidth), to_text(default_link.latency))});
  platform.engine = read_engine(flags, reader);
  add_host({flags.cpu_memory, flags.host_link, flags.disk, "--cpu-memory", "--host-link"},
           platform.cluster, reader.mistakes());
  reader.throw_if_any();
  read_collectives(flags, platform.cluster);
  return platform;
}

/// The trace's own cluster; flags may set the engine and the memory fraction.
Platform from_trace(const ClusterHint& own, const ClusterFlags& flags) {
  FlagReader reader;
  Platform platform;
  ClusterChoice& cluster = platform.cluster;
  if (own.accelerators > 0)
    cluster.devices.push_back({.count = own.accelerators,
                               .name = "accelerator",
                               .kind = "accelerator",
                               .memory = own.memory});
  if (own.cpus > 0)
    cluster.devices.push_back(
        {.count = own.cpus, .name = "cpu", .kind = "cpu", .memory = unlimited_memory});
  cluster.link.bandwidth = {0x1p31};  // bytes per second, assumed by the authors of such traces
  cluster.memory_fraction = read_fraction(flags, reader);
  platform.engine = read_engine(flags, reader);
  reader.throw_if_any();
  read_collectives(flags, cluster);
  return platform;
}

/// Types of devices that PyTorch's kernels were measured on replace plain ones, whose times are
/// those of the best kernels, if the trace is one of PyTorch without times of its own on them.
void take_variants(ClusterChoice& cluster, const Trace& trace) {
  const auto& known = built_in_devices().devices;
  const auto& own = trace.graph.device_kinds();
  for (DeviceChoice& d : cluster.devices) {
    const auto variant = known.find(d.kind + "_pytorch");
    if (!trace.source.starts_with("PyTorch") || !trace.graph.has_work() || variant == known.end() ||
        std::ranges::find(own, d.kind) != own.end())
      continue;
    d.named = std::exchange(d.kind, variant->first);
    d.model = variant->second;
  }
}

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

void add_cluster_flags(CLI::App& verb, ClusterFlags& flags) {
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

TraceExperiment read_experiment(const TraceArgument& argument, const ClusterFlags& flags,
                                std::optional<std::vector<TransformChoice>> transforms) {
  std::optional<Platform> platform;
  if (!flags.scenario.empty() || names_cluster(flags)) platform = read_platform(flags);

  const auto trace = std::make_shared<Trace>(read_trace(argument));
  for (const std::string& note : trace->notes)
    if (note.starts_with("warning: ")) fmt::print(stderr, "{}: {}\n", argument.path, note);
  if (!platform && trace->cluster) {
    platform = from_trace(*trace->cluster, flags);
    trace->graph = trace->graph.with_transfers(trace->cluster->transfer);
  }
  if (!platform) platform = from_flags(flags);  // throws InputError for the missing flags
  if (flags.reserve > Bytes{}) {
    for (DeviceChoice& d : platform->cluster.devices) {
      if (d.kind == "host") continue;
      const Bytes usable = d.usable(platform->cluster.memory_fraction);
      d.memory = usable == unlimited_memory ? usable : usable - std::min(usable, flags.reserve);
    }
    platform->cluster.memory_fraction = 1.0;
  }
  take_own_types(platform->cluster, trace->graph);
  if (flags.scenario.empty()) take_variants(platform->cluster, *trace);
  if (transforms) platform->transforms = std::move(*transforms);
  require_times(*trace, platform->cluster, argument.path);
  PreparedGraph graph = prepare({trace, &trace->graph}, platform->cluster, platform->transforms);
  const std::int64_t samples =
      saturated(graph.batches * static_cast<double>(std::max<std::int64_t>(trace->batch, 1)));
  const auto costed = std::make_shared<const CostedGraph>(
      std::make_shared<const PreparedGraph>(std::move(graph)), platform->cluster);
  return {trace->name, Experiment(costed, platform->engine), samples};
}

bool names_cluster(const ClusterFlags& flags) {
  return !(flags.devices.empty() && flags.kind.empty() && flags.memory.empty() &&
           flags.link.empty() && flags.bandwidth.empty() && flags.latency.empty());
}

Placement read_placement(const std::string& path, const Problem& problem, std::string_view verb) {
  try {
    return read_any_placement(path, problem);
  } catch (const InfeasibleError& e) {
    throw InputError(fmt::format("{}: has no placement to {}, because its placer found none: {}",
                                 path, verb, e.what()));
  }
}

Bytes read_reserve(const std::string& text) {
  if (const auto reserve = parse_bytes(text)) return *reserve;
  throw InputError(fmt::format("--reserve: '{}' is not a size such as '1 GiB'", text));
}

Bytes usual_reserve(Bytes memory) {
  constexpr Bytes runtime{std::int64_t{1} << 30};
  return memory < 4 * runtime ? Bytes{} : runtime;
}

Platform read_platform(const ClusterFlags& flags) {
  return flags.scenario.empty() ? from_flags(flags) : from_scenario(flags.scenario, flags.sets);
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
