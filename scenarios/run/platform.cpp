#include "scenarios/run/platform.h"

#include "placers/framework_placement.h"
#include "placers/interface/registry.h"
#include "scenarios/read/choice_text.h"
#include "scenarios/read/paths.h"
#include "sim/collectives/collective_models.h"

namespace baechi {
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

/// The scenario's first point. If points differ in more than the graph, the note has the values of
/// the first one.
Platform from_scenario(const std::string& path, const std::vector<std::string>& sets) {
  const ScenarioFile file = load_scenario(with_data_folder(path), sets);
  const Scenario& first = file.point(0);
  std::string left_open;
  for (std::size_t i = 0; i < file.axes.size(); ++i) {
    if (!file.axes[i].starts_with("graph"))
      left_open += fmt::format(" --set '{}={}'", file.axes[i], first.at[i]);
  }
  if (!left_open.empty())
    left_open = fmt::format("the first point of the sweep in {}:{}\n", path, left_open);
  return {first.cluster, first.engine, first.transforms, left_open};
}

EngineOptions read_engine(const PlatformFlags& flags, FlagReader& reader) {
  EngineOptions engine;
  engine.transfers = reader.read("--transfers", flags.transfers, engine.transfers);
  engine.semantics = reader.read("--semantics", flags.semantics, engine.semantics);
  engine.queue = reader.read("--queue", flags.queue, engine.queue);
  engine.cache_tensors = !flags.no_cache;
  engine.overlap = !flags.no_overlap;
  return engine;
}

double read_fraction(const PlatformFlags& flags, FlagReader& reader) {
  return reader.read<double>("--memory-fraction", flags.memory_fraction, 1.0, parse_number<double>,
                             "a number in (0, 1]");
}

/// Parses NAME[:option=value,...] or a name of 'baechi list collective_kinds'.
void set_collectives(const PlatformFlags& flags, ClusterChoice& cluster) {
  if (flags.collectives.empty()) return;
  const auto& kinds = built_in_devices().collectives;
  const Choice choice = parse_choice(flags.collectives, "--collectives");
  const auto kind = kinds.find(choice.name);
  cluster.collectives = kind != kinds.end()
                            ? make_collectives(kind->second.section)
                            : make_collectives(choice.name, choice.options, "--collectives");
}

Platform from_flags(const PlatformFlags& flags) {
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
  set_collectives(flags, platform.cluster);
  return platform;
}

/// The trace's own cluster; flags may set the engine and the memory fraction.
Platform from_trace(const ClusterHint& own, const PlatformFlags& flags) {
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
  set_collectives(flags, cluster);
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

}  // namespace

TraceExperiment experiment_on(std::optional<Platform> platform, const PlatformFlags& flags,
                              Trace read, const std::string& path,
                              std::optional<std::vector<TransformChoice>> transforms) {
  const auto trace = std::make_shared<Trace>(std::move(read));
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
  require_times(*trace, platform->cluster, path);
  PreparedGraph graph = prepare({trace, &trace->graph}, platform->cluster, platform->transforms);
  const std::int64_t samples =
      saturated(graph.batches * static_cast<double>(std::max<std::int64_t>(trace->batch, 1)));
  const auto costed = std::make_shared<const CostedGraph>(
      std::make_shared<const PreparedGraph>(std::move(graph)), platform->cluster);
  return {trace->name, Experiment(costed, platform->engine), samples};
}

bool names_cluster(const PlatformFlags& flags) {
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

Platform read_platform(const PlatformFlags& flags) {
  return flags.scenario.empty() ? from_flags(flags) : from_scenario(flags.scenario, flags.sets);
}

planners::PlannerInput with_devices(planners::PlannerInput input, const PlatformFlags& flags) {
  Mistakes mistakes;
  const auto read = [&](std::string_view flag, const std::string& text, auto parse,
                        std::string_view example, auto use) {
    if (text.empty()) return;
    if (const auto value = parse(text))
      use(*value);
    else
      mistakes.add(fmt::format("{}: '{}' is not {}", flag, text, example));
  };
  read("--devices", flags.devices, parse_number<std::int64_t>, "a whole number",
       [&](std::int64_t count) {
         if (count < 1 || count > 10'000)
           mistakes.add(fmt::format("--devices: '{}' is not from 1 to 10000", count));
         input.devices = count;
       });
  read("--memory", flags.memory, parse_bytes, "a size such as '8 GiB'",
       [&](Bytes memory) { input.memory = static_cast<double>(memory.count); });
  read("--memory-fraction", flags.memory_fraction, parse_number<double>, "a number in (0, 1]",
       [&](double fraction) {
         if (!(fraction > 0.0 && fraction <= 1.0))
           mistakes.add("--memory-fraction: not a number in (0, 1]");
         input.memory *= fraction;
       });
  read("--bandwidth", flags.bandwidth, parse_bandwidth, "a rate such as '25 GB/s'",
       [&](Bandwidth b) { input.bandwidth = b.bytes_per_second; });
  for (const auto& [flag, given] : {std::pair("--kind", !flags.kind.empty()),
                                    {"--link", !flags.link.empty()},
                                    {"--latency", !flags.latency.empty()},
                                    {"--transfers", !flags.transfers.empty()},
                                    {"--semantics", !flags.semantics.empty()},
                                    {"--queue", !flags.queue.empty()},
                                    {"--collectives", !flags.collectives.empty()},
                                    {"--no-cache", flags.no_cache},
                                    {"--no-overlap", flags.no_overlap},
                                    {"--scenario", !flags.scenario.empty()}})
    if (given)
      mistakes.add(fmt::format(
          "{}: planners only support --devices, --memory, --memory-fraction and --bandwidth",
          flag));
  mistakes.throw_if_any();
  return input;
}

ScenarioFile scenario_on(Platform platform, const std::string& path) {
  ScenarioFile file;
  file.path = path;
  GraphChoice& graph = file.graphs.emplace_back();
  graph.file = with_data_folder(path);
  graph.text = path;
  file.transforms = {std::move(platform.transforms)};
  file.clusters = {std::move(platform.cluster)};
  file.engines = {platform.engine};
  file.profiles = {{}};
  file.placers.push_back({});
  file.placers.back().placer = make_placer("auto");
  return file;
}

}  // namespace baechi
