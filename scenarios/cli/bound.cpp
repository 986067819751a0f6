#include <nlohmann/json.hpp>

#include "scenarios/cli/arguments.h"
#include "scenarios/cli/cluster_flags.h"
#include "scenarios/cli/output.h"
#include "scenarios/cli/verbs.h"
#include "scenarios/run/problem.h"
#include "sim/cluster/bounds.h"

namespace baechi {
namespace {

struct Arguments {
  TraceArgument trace;
  ClusterFlags cluster;
  std::string format;
};

nlohmann::ordered_json bounds_json(const LowerBounds& bounds) {
  return {{"lower_bound_us", to_us(bounds.best())},
          {"binding", bounds.binding()},
          {"critical_path_us", to_us(bounds.critical_path)},
          {"work_us", to_us(bounds.work)},
          {"group_us", to_us(bounds.group)},
          {"fits_in_memory", bounds.fits_in_memory},
          {"why_not", bounds.why_not}};
}

std::string bounds_table(const LowerBounds& bounds) {
  const auto line = [&bounds](std::string_view name, Duration time, std::string_view meaning) {
    const std::string text = fmt::format("{:<14} {:>12}   {}", name, to_text(time), meaning);
    return (bounds.binding() == name ? bold(text + "   <- binds") : text) + "\n";
  };
  std::string text =
      line("critical path", bounds.critical_path, "the longest chain of ops, transfers free") +
      line("work", bounds.work, "all ops, shared out evenly over the devices") +
      line("group", bounds.group, "the longest colocation group, on one device");
  if (!bounds.fits_in_memory)
    text += fmt::format("memory           {}   {}\n", red("too small"), bounds.why_not);
  return text + fmt::format("no step is shorter than {}\n", to_text(bounds.best()));
}

int bound(const Arguments& arguments) {
  const auto workload = read_workload(arguments.trace, arguments.cluster);
  const LowerBounds bounds = lower_bounds(*workload->graph, workload->cluster, *workload->costs);
  if (arguments.format == "json")
    print_json(bounds_json(bounds));
  else
    print_out(bounds_table(bounds));
  return 0;
}

}  // namespace

void add_bound(CLI::App& app, Verb& chosen) {
  const auto arguments = std::make_shared<Arguments>();
  CLI::App* verb =
      app.add_subcommand("bound", "How fast a step can be at best, whatever the placement");
  add_trace_argument(*verb, arguments->trace);
  add_format(*verb, arguments->format, {"table", "json"});
  add_cluster_flags(*verb, arguments->cluster);
  verb->footer(
      "A TRACE that names its own cluster needs no CLUSTER.\n"
      "Example:\n"
      "  baechi bound graph.json --devices 4 --memory '8 GiB'");
  verb->callback([&chosen, arguments] { chosen = [arguments] { return bound(*arguments); }; });
}

}  // namespace baechi
