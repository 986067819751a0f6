#include <iterator>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "scenarios/report/html.h"
#include "scenarios/report/plots.h"
#include "sim/file_aside.h"

namespace baechi {
namespace {

struct ReportFlags {
  std::string folder;
  bool plots = false;
  std::vector<std::size_t> steps;
};

int write_report(const ReportFlags& flags) {
  const Results results = read_results(flags.folder);
  std::vector<Plot> plots;
  if (flags.plots) {
    plots = chart_plots(results);
    std::ranges::move(step_plots(results, flags.steps), std::back_inserter(plots));
  }
  write_aside(flags.folder + "/report.html", to_html(results));
  fmt::print(stderr, "{}/report.html\n", flags.folder);
  if (flags.plots) {
    write_plots(flags.folder + "/plots", plots);
    print_pictures(flags.folder + "/plots", fmt::format("*.csv ({} plots)", plots.size()));
  }
  return 0;
}

struct MergeFlags {
  std::vector<std::string> folders;
  std::string out;
  bool partial = false;
};

int merge(const MergeFlags& flags) {
  std::optional<Stage> stage("merging");
  const Results all = merge_results(flags.folders, flags.partial);
  merge_timelines(flags.folders, flags.out);
  write_results(flags.out, all);
  stage.reset();
  fmt::print(stderr, "{0}/report.html  {0}/results.csv  {0}/results.sqlite: {1} of {2} runs\n",
             flags.out, all.rows.size(), all.planned);
  return 0;
}

}  // namespace

void add_report(CLI::App& app, Verb& chosen) {
  const auto [verb, flags] = add_verb(
      app, chosen, "report", "Write report.html again from the results in a folder", write_report);
  add_argument(*verb, "DIR", flags->folder, "A folder that 'baechi run' wrote");
  CLI::Option* plots =
      verb->add_flag("--plots", flags->plots,
                     "Also write the data of charts and steps to DIR/plots/*.csv, and draw them as "
                     "SVG and PDF with matplotlib");
  add_repeated(*verb, "--step", flags->steps, "ID",
               "Plot the step of run ID (column id of results.csv; one that the report can draw) "
               "instead of each graph's fastest; may be repeated")
      ->needs(plots);
  verb->footer("tools/baechi_plot.py draws DIR/plots/NAME.csv: edit a copy to change the plots.");
}

void add_merge(CLI::App& app, Verb& chosen) {
  const auto [verb, flags] = add_verb(app, chosen, "merge", "Merge the results of shards", merge);
  add_argument(*verb, "DIR", flags->folders, "Folders that 'baechi run --shard I/N' wrote");
  add_value(*verb, "--out", flags->out, "DIR", "Folder of the merged results")->required();
  verb->add_flag("--partial", flags->partial, "Merge even if shards are missing");
  verb->footer(
      "The merged results equal those of a run without shards. If shards are missing, they are\n"
      "listed, nothing is written, and the exit code is 2. After --partial,\n"
      "'baechi run SCENARIO --out DIR --resume' runs the missing ones.");
}

}  // namespace baechi
