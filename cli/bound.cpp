#include "cli/arguments.h"
#include "cli/output.h"
#include "placers/bounds/solver_bounds.h"
#include "placers/feasible.h"

namespace baechi {
namespace {

using Json = nlohmann::ordered_json;

struct BoundArguments {
  TraceArgument trace;
  PlatformFlags cluster;
  std::string time_limit, format;
  bool least_memory = false;
};

Json bounds_json(const bounds::NamedBounds& all_bounds) {
  Json json{{"lower_bound_us", to_us(all_bounds.best())}, {"binding", all_bounds.binding()}};
  for (const bounds::NamedBound& b : all_bounds.all) json[std::string(b.key)] = to_us(b.time);
  return json;
}

std::string bounds_table(const bounds::NamedBounds& all_bounds) {
  std::string text;
  for (const bounds::NamedBound& b : all_bounds.all) {
    const std::string line = fmt::format("{:<16} {:>12}   {}", b.name, to_text(b.time), b.meaning);
    text += (all_bounds.binding() == b.name ? bold(line + "   <- binds") : line) + "\n";
  }
  return text;
}

/// Reads the experiment for --least-memory. Throws InputError if the devices' memory differs, or if
/// the engine's semantics do not enforce it.
Experiment read_for_memory(BoundArguments arguments) {
  PlatformFlags& cluster = arguments.cluster;
  if (!cluster.devices.empty() && cluster.kind.empty() && cluster.memory.empty())
    cluster.memory = "1 TiB";  // any value: the limit is searched for
  const Experiment experiment = read_experiment(arguments.trace, cluster).experiment;
  const Problem problem = experiment.problem();
  if (problem.engine.semantics != Semantics::event)
    throw InputError("--least-memory needs --semantics event, which limits memory");
  if (problem.cluster.num_computing() < problem.cluster.num_devices())
    throw InputError(
        "--least-memory: without hosts and disks, where weights may wait: with them a device need "
        "only hold what one module works with, but a step takes the longer the less it has; "
        "'baechi place' with the same flags and --memory SIZE says what waits then, and how long a "
        "step takes");
  for (const DeviceId d : problem.cluster.devices())
    if (problem.cluster.device(d).memory != problem.cluster.device(DeviceId{0}).memory)
      throw InputError("--least-memory: the devices must have equal memory");
  return experiment;
}

/// The least size of at least `size` that to_text() shows exactly: what a user types fits.
Bytes shown_up(Bytes size) {
  std::int64_t unit = 1;
  while (unit < (std::int64_t{1} << 30) && size.count >= unit * 1024) unit *= 1024;
  if (unit == 1) return size;
  const std::int64_t hundredths =
      size.count / unit * 100 + (size.count % unit * 100 + unit - 1) / unit;
  return {hundredths / 100 * unit + (hundredths % 100 * unit + 99) / 100};
}

int bound_memory(const BoundArguments& arguments) {
  const Experiment experiment = read_for_memory(arguments);
  const std::size_t devices = experiment.problem().cluster.num_devices();
  try {
    const LeastMemory least = find_least_memory(experiment.problem());
    if (arguments.format == "json") {
      Json json{{"least_memory_bytes", least.bytes.count},
                {"proved", least.proved()},
                {"lower_bound_bytes", least.bound.count},
                {"devices", devices}};
      add_times(json, experiment);
      print_json(json);
      return 0;
    }
    print_out(times_line(experiment) +
              fmt::format(
                  "least memory     {:>12}   per device, of {} devices: a placement fits\n{}",
                  to_text(shown_up(least.bytes)), devices,
                  least.proved() ? std::string("with less, no placement fits (proved)\n")
                                 : fmt::format("lower bound      {:>12}   with less, no placement "
                                               "fits; between the two, none was found\n",
                                               to_text(least.bound))));
  } catch (const InfeasibleError& error) {
    if (arguments.format == "json")
      print_json({{"least_memory_bytes", Json()}, {"proved", false}, {"why_not", error.what()}});
    else
      print_out(fmt::format("{}\n", error.what()));
  }
  return 0;
}

int bound(const BoundArguments& arguments) {
  if (arguments.least_memory) return bound_memory(arguments);
  std::optional<Duration> time_limit;
  if (!arguments.time_limit.empty()) {
    time_limit = parse_duration(arguments.time_limit);
    if (!time_limit)
      throw InputError(
          fmt::format("--time-limit: '{}' is not a time such as '10 s'", arguments.time_limit));
  }
  const Experiment experiment = read_experiment(arguments.trace, arguments.cluster).experiment;
  const Problem problem = experiment.problem();
  const LowerBounds quick = lower_bounds(problem.graph, problem.cluster, problem.costs);
  // Ops run on devices that compute, with weights that need not fit there.
  const Cluster computing = problem.cluster.computing();
  const bool waits = computing.num_devices() < problem.cluster.num_devices();
  Problem running{problem.graph, computing, problem.costs, problem.engine};
  running.engine.enforce_memory &= !waits;
  bounds::NamedBounds step = bounds::step_bounds(quick, running);
  if (waits)
    step.all.push_back({"offload", "offload_us",
                        "weights that devices cannot hold, over their links", quick.offload});
  const bounds::NamedBounds load = bounds::load_bounds(quick, running, time_limit);
  std::optional<std::size_t> needed;
  if (!waits) needed = bounds::devices_needed(running);
  if (arguments.format == "json") {
    Json json = bounds_json(step);
    add_times(json, experiment);
    json["fits_in_memory"] = quick.fits_in_memory;
    json["why_not"] = quick.why_not;
    json["devices_needed"] = needed ? Json(*needed) : Json();
    json["max_load"] = bounds_json(load);
    json["latency"] = {{"lower_bound_us", to_us(quick.critical_path)},
                       {"binding", "critical path"}};
    print_json(json);
    return 0;
  }
  std::string text = times_line(experiment) + bounds_table(step);
  if (needed)
    text += fmt::format("{:<16} {:>12}   of {} devices, for the weights alone\n", "devices needed",
                        needed.value_or(0), computing.num_devices());
  if (!quick.fits_in_memory)
    text += fmt::format("memory           {}   {}\n", red("too small"), quick.why_not);
  text += fmt::format("no step is shorter than {}\n\n", to_text(step.best()));
  text += bounds_table(load) + fmt::format("no max_load is below {}\n\n", to_text(load.best()));
  text += fmt::format("no latency is below {} (critical path)\n", to_text(quick.critical_path));
  print_out(text);
  return 0;
}

}  // namespace

void add_bound(CLI::App& app, Verb& chosen) {
  const auto [verb, arguments] =
      add_verb(app, chosen, "bound",
               "Lower bounds for any placement: on step time, max_load and latency", bound);
  add_trace_argument(*verb, arguments->trace);
  CLI::Option* time_limit =
      add_value(*verb, "--time-limit", arguments->time_limit, "T",
                "Also bound max_load by an integer program, solved for at most T");
  verb->add_flag("--least-memory", arguments->least_memory,
                 "Instead, find the least memory per device with which a placement fits, and "
                 "whether that is proved; ignores --memory")
      ->excludes(time_limit);
  add_format(*verb, arguments->format, {"table", "json"});
  add_cluster_flags(*verb, arguments->cluster);
  verb->footer(
      "A TRACE that names its own cluster needs no CLUSTER flags.\n"
      "Examples:\n"
      "  baechi bound graph.json --devices 4 --memory '8 GiB'\n"
      "  baechi bound graph.json --devices 4 --least-memory\n"
      "  baechi bound bert24_inference.json --time-limit '10 s'    on the cluster TRACE names");
}

}  // namespace baechi
