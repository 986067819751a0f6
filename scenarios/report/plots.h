/// The report's pictures for papers: data as CSV, which tools/baechi_plot.py draws.
#pragma once

#include "scenarios/results/results.h"

namespace baechi {

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

/// Writes NAME.csv of each plot to `folder`.
void write_plots(const std::string& folder, std::span<const Plot> plots);

/// Draws each CSV file of `folder` that baechi_plot.py knows as SVG and PDF. Returns "", or why
/// there are no pictures (no python3, no matplotlib), in a sentence. Throws std::runtime_error if
/// the script fails.
std::string draw_plots(const std::string& folder);

}  // namespace baechi
