#include <algorithm>
#include <nlohmann/json.hpp>
#include <optional>

#include "cli/arguments.h"
#include "cli/cluster_flags.h"
#include "cli/output.h"
#include "cli/verbs.h"
#include "placers/bounds/solver_bounds.h"
#include "placers/exact/pipelines.h"
#include "placers/interface/registry.h"
#include "sim/problem/bounds.h"

namespace baechi {
namespace {

using Json = nlohmann::ordered_json;

struct Arguments {
  TraceArgument trace;
  ClusterFlags cluster;
  std::string time_limit, format;
};

/// One lower bound: its name, its key in JSON, its meaning in a few words, and its value.
struct Bound {
  std::string_view name, key, meaning;
  Duration time{};
};

/// All lower bounds on one objective, the quickly computed ones first.
struct Bounds {
  std::vector<Bound> all;

  Duration best() const { return std::ranges::max(all, {}, &Bound::time).time; }
  std::string_view binding() const { return std::ranges::max_element(all, {}, &Bound::time)->name; }
};

/// The bound by linear program is left out for graphs with more edges: it would take too long.
constexpr std::size_t most_edges = 100'000;

Bounds step_bounds(const LowerBounds& quick, const Problem& problem) {
  Bounds bounds{{{"critical path", "critical_path_us", "the longest chain of ops, transfers free",
                  quick.critical_path},
                 {"work", "work_us", "all ops, shared out evenly over the devices", quick.work},
                 {"group", "group_us", "the longest colocation group, on one device", quick.group},
                 {"memory", "memory_us", "all ops, shared out so that the weights fit",
                  bounds::shared_bound(problem, bounds::Limits::all_devices)}}};
  if (problem.engine.semantics == Semantics::event && problem.graph.num_edges() <= most_edges)
    bounds.all.push_back({"communication", "communication_us",
                          "the longest chain, one neighbour of each op near",
                          bounds::communication_bound(problem)});
  return bounds;
}

Bounds load_bounds(const LowerBounds& quick, const Problem& problem,
                   std::optional<Duration> time_limit) {
  const ColocationUnits units(problem.graph);
  const std::vector<DeviceClass> classes = device_classes(problem);
  const exact::Blocks blocks(problem, units, classes, {.join_cycles = false});
  Bounds bounds{{{"work", "work_us", "all ops, shared out evenly over the devices", quick.work},
                 {"group", "group_us", "the longest colocation group, on one device", quick.group},
                 {"memory", "memory_us", "all ops, shared out so that the weights fit",
                  bounds::shared_bound(problem, bounds::Limits::accelerators)},
                 {"counting", "counting_us", "the longest groups, given out whole",
                  exact::load_bound(blocks, classes)}}};
  if (!time_limit) return bounds;
  const std::string limit = fmt::format("{} us", to_us(*time_limit));
  try {
    const Placement split =
        make_placer("mip_max_load", Options("mip_max_load", {{"time_limit", {limit, {}, {}}}}))
            ->place(problem, 0);
    bounds.all.push_back({"integer program", "integer_program_us",
                          "branch and bound, as far as it came in time",
                          from_us(split.facts.at("bound_us")).value_or(Duration{})});
  } catch (const InfeasibleError&) {  // no placement fits, so a bound would mean nothing
  }
  return bounds;
}

Json json_of(const Bounds& bounds) {
  Json json{{"lower_bound_us", to_us(bounds.best())}, {"binding", bounds.binding()}};
  for (const Bound& b : bounds.all) json[std::string(b.key)] = to_us(b.time);
  return json;
}

std::string table_of(const Bounds& bounds) {
  std::string text;
  for (const Bound& b : bounds.all) {
    const std::string line = fmt::format("{:<16} {:>12}   {}", b.name, to_text(b.time), b.meaning);
    text += (bounds.binding() == b.name ? bold(line + "   <- binds") : line) + "\n";
  }
  return text;
}

int bound(const Arguments& arguments) {
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
  const Bounds step = step_bounds(quick, problem);
  const Bounds load = load_bounds(quick, problem, time_limit);
  const std::optional<std::size_t> needed = bounds::devices_needed(problem);
  if (arguments.format == "json") {
    Json json = json_of(step);
    add_times(json, experiment);
    json["fits_in_memory"] = quick.fits_in_memory;
    json["why_not"] = quick.why_not;
    json["devices_needed"] = needed ? Json(*needed) : Json();
    json["max_load"] = json_of(load);
    json["latency"] = {{"lower_bound_us", to_us(quick.critical_path)},
                       {"binding", "critical path"}};
    print_json(json);
    return 0;
  }
  std::string text = times_line(experiment) + table_of(step);
  if (needed)
    text += fmt::format("{:<16} {:>12}   of {} devices, for the weights alone\n", "devices needed",
                        *needed, problem.cluster.num_devices());
  if (!quick.fits_in_memory)
    text += fmt::format("memory           {}   {}\n", red("too small"), quick.why_not);
  text += fmt::format("no step is shorter than {}\n\n", to_text(step.best()));
  text += table_of(load) + fmt::format("no max_load is below {}\n\n", to_text(load.best()));
  text += fmt::format("no latency is below {} (critical path)\n", to_text(quick.critical_path));
  print_out(text);
  return 0;
}

}  // namespace

void add_bound(CLI::App& app, Verb& chosen) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* verb = app.add_subcommand(
      "bound", "Lower bounds for any placement: on step time, max_load and latency");
  add_trace_argument(*verb, arguments->trace);
  verb->add_option("--time-limit", arguments->time_limit,
                   "Also bound max_load by an integer program that runs for at most T")
      ->type_name("T");
  add_format(*verb, arguments->format, {"table", "json"});
  add_cluster_flags(*verb, arguments->cluster);
  verb->footer(
      "A TRACE that names its own cluster needs no CLUSTER flags.\n"
      "Examples:\n"
      "  baechi bound graph.json --devices 4 --memory '8 GiB'\n"
      "  baechi bound bert24_inference.json --time-limit '10 s'    on the cluster TRACE names");
  verb->callback([&chosen, arguments] { chosen = [arguments] { return bound(*arguments); }; });
}

}  // namespace baechi
