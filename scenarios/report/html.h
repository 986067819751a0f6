/// report.html: its page and its data; and the folder of results that `baechi run` writes.
#pragma once
#include "scenarios/results/tables.h"

namespace baechi {

/// JSON that may stand in a script element:
///   {"tables": [{"axes", "figure": what the values are, "peaks": whether there are any,
///                "columns", "bounds": [ns or null], "memory": [bytes],
///                "scales": [an axis each: {"kind": "linear", "logarithmic" or "words",
///                                          "at": {a value: where it stands}}],
///                "rows": [{"name", "value": [ns or null], "peak": [bytes or null],
///                          "parts": [[bytes or null: of each kind] or null], "status": [0 ok, 1
///                          oom, 2 infeasible, 3 error, -1 not run]}]}],
///    "labels": {a value of a column: the same in short},
///    "steps": {id: {"graph", "title", "point", "placer", "grouped", "picture"}},
///    "profiles": {"step", "placing": [{"name", "look": its colour and mark,
///                 "ratio": [...], "share": [...]}]},
///    "utilisation": [{"id", "name": a run's label, "graph": model, "devices", "ns", "flops",
///                     "traffic", "peak", "bandwidth": of one device, null if unknown}],
///    "names": {graph: {op: name}}, "first": the step to show at first}
std::string page_data(const Results& results, std::span<const ResultTable> tables,
                      const UsedRuns& used, std::span<const Profile> step_profiles,
                      std::span<const Profile> placing_profiles);

/// For each graph a table of placers against the points of the sweep, charts of step time and peak
/// memory along each axis, and the steps that have a picture. With very many runs it contains only
/// the first ones, and says so.
std::string to_html(const Overview& overview);
std::string to_html(const Results& results);

/// A contest without its runs: the ranking, profiles and pairs of its placers, and their values
/// over the best one at each point.
struct ContestPage {
  std::string title{}, first{};  ///< first: the first sentence
  Summary ranking{};
  Contest contest{};
  std::vector<std::string> points{};  ///< names [contest.points]
};
std::string to_html(const ContestPage& page);

/// Writes results.csv, results.sqlite and report.html into `folder`, which is created if needed,
/// each to a temporary file that is then renamed. Throws std::runtime_error on failure.
void write_results(const std::string& folder, const ResultsHeader& header, const EachRow& rows);
void write_results(const std::string& folder, const Results& results);

/// The data of one picture.
struct Plot {
  std::string name;
  std::string csv;
};

/// Step time (or the measure's value) and peak memory of every table along its memory fraction, or
/// its last axis, one plot for every setting of the others. Names differ.
std::vector<Plot> chart_plots(const Results& results);

/// The slices of a picture (sim/report/timeline.h) in rows: device, track (compute, send, receive,
/// memory, limit, oom), what (phase of an op, kind of memory), start and end in us, bytes in MiB.
std::string step_csv(const std::string& picture);

/// Ops, transfers and memory of each device over time, of the `wanted` runs, or of each graph's
/// fastest run if none is wanted. Only runs that have a picture can be plotted; throws InputError
/// for other wanted runs.
std::vector<Plot> step_plots(const Results& results, const std::vector<std::size_t>& wanted);

void write_plots(const std::string& folder, std::span<const Plot> plots);

/// Draws each CSV file of `folder` that baechi_plot.py knows as SVG and PDF. Returns "", or why
/// there are no pictures (no python3, no matplotlib), in a sentence. Throws std::runtime_error if
/// the script fails.
std::string draw_plots(const std::string& folder);

}  // namespace baechi
