#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <memory>

#include "cli/gnuplot.h"
#include "cli/verbs.h"
#include "scenarios/report/html.h"
#include "scenarios/report/plots.h"
#include "scenarios/results/results.h"
#include "scenarios/results/tables.h"
#include "sim/error.h"
#include "sim/file_aside.h"

namespace baechi {
namespace {

struct ReportFlags {
  std::string folder;
  bool plots = false;
  std::vector<std::size_t> steps;
};

/// Plots of the steps of the `wanted` runs, or of each graph's fastest run if none is wanted. Only
/// runs that have a picture can be plotted; throws InputError for other wanted runs.
std::vector<Plot> step_plots(const Results& results, const std::vector<std::size_t>& wanted) {
  std::vector<Plot> plots;
  std::vector<std::size_t> drawn;  // ids of all runs that have a picture
  for (const ResultTable& table : result_tables(results)) {
    const RunResult* fastest = nullptr;
    std::size_t where = 0;
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      for (const ResultTable::Row& row : table.rows) {
        const RunResult* run = row.cells[c];
        if (run == nullptr || run->picture.empty()) continue;
        drawn.push_back(run->id);
        if (std::ranges::find(wanted, run->id) != wanted.end())
          plots.push_back(step_plot(*run, row.name + ", " + point_label(results, table, c)));
        if (!run->value || (fastest != nullptr && *run->value >= *fastest->value)) continue;
        fastest = run;
        where = c;
      }
    }
    if (wanted.empty() && fastest != nullptr)
      plots.push_back(
          step_plot(*fastest, fastest->placer + ", " + point_label(results, table, where)));
  }
  Mistakes mistakes;
  for (const std::size_t id : wanted) {
    if (std::ranges::find(drawn, id) != drawn.end()) continue;
    mistakes.add(fmt::format("--step {}: no run of which there is a picture (those: {})", id,
                             drawn.empty() ? "none" : fmt::format("{}", fmt::join(drawn, ", "))));
  }
  mistakes.throw_if_any();
  return plots;
}

int report(const ReportFlags& flags) {
  const Results results = read_results(flags.folder);
  std::string gnuplot;
  std::vector<Plot> plots;
  if (flags.plots) {
    gnuplot = installed_gnuplot("--plots");
    plots = chart_plots(results);
    std::ranges::move(step_plots(results, flags.steps), std::back_inserter(plots));
  }
  write_aside(flags.folder + "/report.html", to_html(results));
  fmt::print(stderr, "{}/report.html\n", flags.folder);
  if (flags.plots) {
    draw_plots(flags.folder + "/plots", plots, gnuplot);
    fmt::print(stderr, "{0}/plots/*.svg, *.pdf, *.gp ({1} plots)\n", flags.folder, plots.size());
  }
  return 0;
}

}  // namespace

void add_report(CLI::App& app, Verb& chosen) {
  CLI::App* verb = app.add_subcommand("report", "Rebuild report.html from the results in a folder");
  const auto flags = std::make_shared<ReportFlags>();
  verb->add_option("DIR", flags->folder, "A folder that 'baechi run' wrote")
      ->required()
      ->type_name("");
  CLI::Option* plots =
      verb->add_flag("--plots", flags->plots,
                     "Also plot charts and steps with gnuplot, to DIR/plots/*.svg and *.pdf");
  verb->add_option(
          "--step", flags->steps,
          "Plot the step of run ID (column id of results.csv; one that the report can draw) "
          "instead of each graph's fastest; may be repeated")
      ->type_name("ID")
      ->take_all()
      ->allow_extra_args(false)
      ->needs(plots);
  verb->footer(
      "DIR/plots/NAME.gp is a plot's gnuplot script with its data: edit it to change the plot.");
  verb->callback([flags, &chosen] { chosen = [flags] { return report(*flags); }; });
}

}  // namespace baechi
