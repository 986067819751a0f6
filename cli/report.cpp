#include <fmt/format.h>

#include <iterator>
#include <memory>

#include "cli/arguments.h"
#include "cli/progress.h"
#include "cli/verbs.h"
#include "scenarios/report/gnuplot.h"
#include "scenarios/report/html.h"
#include "scenarios/report/plots.h"
#include "scenarios/results/results.h"
#include "sim/error.h"
#include "sim/file_aside.h"

namespace baechi {
namespace {

struct ReportFlags {
  std::string folder;
  bool plots = false;
  std::vector<std::size_t> steps;
};

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
    draw_plots(flags.folder + "/plots", plots, gnuplot, stages("drawing plots"));
    fmt::print(stderr, "{0}/plots/*.svg, *.pdf, *.gp ({1} plots)\n", flags.folder, plots.size());
  }
  return 0;
}

}  // namespace

void add_report(CLI::App& app, Verb& chosen) {
  CLI::App* verb =
      app.add_subcommand("report", "Write report.html again from the results in a folder");
  const auto flags = std::make_shared<ReportFlags>();
  add_argument(*verb, "DIR", flags->folder, "A folder that 'baechi run' wrote");
  CLI::Option* plots =
      verb->add_flag("--plots", flags->plots,
                     "Also plot charts and steps with gnuplot, to DIR/plots/*.svg and *.pdf");
  add_repeated(*verb, "--step", flags->steps, "ID",
               "Plot the step of run ID (column id of results.csv; one that the report can draw) "
               "instead of each graph's fastest; may be repeated")
      ->needs(plots);
  verb->footer(
      "DIR/plots/NAME.gp is a plot's gnuplot script with its data: edit it to change the plot.");
  verb->callback([flags, &chosen] { chosen = [flags] { return report(*flags); }; });
}

}  // namespace baechi
