#include <filesystem>
#include <iterator>

#include "cli/arguments.h"
#include "cli/output.h"
#include "cli/progress.h"
#include "scenarios/report/html.h"
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

namespace fs = std::filesystem;

struct CompareArguments {
  std::vector<std::string> folders;
  std::string tolerance, replicate, out, format;
};

void write_profiles(const std::string& folder, const Contest& contest, const Comparison& c) {
  const std::vector<Profile> steps = step_profiles(contest, c);
  const std::vector<Profile> placing = placing_profiles(contest, c);
  fs::create_directories(folder);
  write_aside(folder + "/profiles.csv", profiles_csv(steps, placing));
  print_pictures(folder, "profiles.csv");
}

int compare_folders(const CompareArguments& arguments) {
  const double tolerance = read_tolerance(arguments.tolerance);
  Mistakes mistakes;
  std::vector<Results> results;
  std::set<fs::path> named;
  for (const std::string& folder : arguments.folders) {
    if (std::error_code none; !named.insert(fs::weakly_canonical(folder, none)).second)
      mistakes.add(fmt::format("{}: named twice", folder));
    mistakes.attempt([&] { results.push_back(read_results(folder)); });
  }
  mistakes.throw_if_any();
  const Contest contest =
      joined_contest(results, short_names(arguments.folders), arguments.replicate);
  const Comparison comparison = compare(contest, tolerance);
  const auto never_met = [](const Duel& d) { return d.wins + d.ties + d.losses == 0; };
  if (!comparison.duels.empty() && std::ranges::all_of(comparison.duels, never_met))
    fmt::print(stderr, "no two placers have the same point (column 'point'): nothing to compare\n");
  if (arguments.format == "json")
    print_json(comparison_json(contest, comparison));
  else if (arguments.format == "latex")
    print_out(latex_of(score_table(comparison)) + "\n" + latex_of(duel_matrix(comparison)) + "\n" +
              latex_of(duel_table(comparison)));
  else
    print_out(text_of(score_table(comparison)) + "\n" + text_of(duel_matrix(comparison)) + "\n" +
              text_of(duel_table(comparison)));
  if (!arguments.out.empty()) write_profiles(arguments.out, contest, comparison);
  return 0;
}

}  // namespace

void add_report(CLI::App& app, Verb& chosen) {
  const auto [verb, flags] = add_verb(
      app, chosen, "report", "Write report.html again from the results in a folder", write_report);
  add_argument(*verb, "DIR", flags->folder, "A folder that 'baechi run' wrote");
  CLI::Option* plots = verb->add_flag("--plots", flags->plots,
                                      "Also write the data of charts and steps to DIR/plots/*.csv, "
                                      "and draw them as SVG and PDF with matplotlib");
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

void add_compare(CLI::App& app, Verb& chosen) {
  const auto [verb, arguments] = add_verb(
      app, chosen, "compare", "Compare placers in one or more folders of results", compare_folders);
  add_argument(*verb, "DIR", arguments->folders, "Folders that 'baechi run' wrote");
  add_value(*verb, "--tolerance", arguments->tolerance, "FRACTION",
            "Relative difference of step times up to which they tie [0.1 %]");
  add_value(*verb, "--replicate", arguments->replicate, "KEY",
            "Swept key whose values are replicates of a graph, such as graph.seed");
  add_value(*verb, "-o", arguments->out, "FOLDER",
            "Write performance profiles of step time and placing time to this folder: CSV, and SVG "
            "and PDF by matplotlib");
  add_format(*verb, arguments->format, {"table", "json", "latex"});
  verb->footer(
      "A point is a graph, a cluster and an engine. Placers are compared at equal points: equal\n"
      "scenario name, swept values and column 'point', a hash of graph, cluster and engine. Of\n"
      "several seeds the median is used. A placer in several folders is compared with itself:\n"
      "'m_etf (old)', 'm_etf (new)'.\n"
      "Examples:\n"
      "  baechi compare results/first\n"
      "  baechi compare results/old results/new --tolerance '1 %' -o results/comparison");
}

}  // namespace baechi
