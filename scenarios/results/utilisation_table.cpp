#include "scenarios/results/utilisation_table.h"

#include <fmt/format.h>

#include "scenarios/results/columns.h"

namespace baechi {
namespace {

std::string utilisation_percent(std::optional<double> part) {
  return part ? fmt::format("{:.1f} %", 100.0 * *part) : "-";
}

std::string digits(std::optional<double> value) {
  return value ? fmt::format("{:.4g}", *value) : "-";
}

}  // namespace

UsedRuns used_runs(const Results& results, std::span<const ResultTable> tables, std::size_t most) {
  UsedRuns found;
  for (const ResultTable& table : tables) {
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      for (const ResultTable::Row& row : table.rows) {
        const RunResult* run = row.cells[c];
        if (run == nullptr || !run->utilisation || !run->utilisation->flops) continue;
        if (++found.all > most) continue;
        std::string label = point_label(results, table, c);
        if (table.rows.size() > 1) label += ", " + row.name;
        found.shown.push_back({run, std::move(label)});
      }
    }
  }
  return found;
}

Summary utilisation_table(const Results& results, const UsedRuns& runs) {
  Summary summary{.header = {"run", "step", "samples/s", "TFLOP/s", "busy", "of peak", "while busy",
                             "of bandwidth", "flop/byte", "bound by: compute", "memory",
                             "launches"}};
  for (const auto& [run, label] : runs.shown) {
    const Utilisation& u = *run->utilisation;
    summary.rows.push_back(
        {label, short_text(*run->value), digits(throughput(results, *run)),
         digits(*u.flops / (to_us(*run->value) * 1e6)), utilisation_percent(u.busy),
         utilisation_percent(u.flops_of_step), utilisation_percent(u.flops_of_busy),
         utilisation_percent(u.traffic_of_step), digits(u.intensity()),
         utilisation_percent(u.compute_bound), utilisation_percent(u.memory_bound),
         utilisation_percent(u.launch_bound)});
  }
  summary.note =
      "Fractions over all devices of the cluster. Busy: of the step in which they run ops. Of "
      "peak, "
      "of bandwidth: of what they could do in the step by their data sheets; while busy: in busy "
      "time. Bound by: what decides the time of the ops, by their share of it.";
  if (runs.all > runs.shown.size())
    summary.note +=
        fmt::format(" The first {} of {} runs; results.csv has all.", runs.shown.size(), runs.all);
  return summary;
}

}  // namespace baechi
