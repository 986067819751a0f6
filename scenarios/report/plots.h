/// The report's pictures for papers: gnuplot scripts that hold their data.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/results/comparison.h"
#include "scenarios/results/results.h"

namespace baechi {

/// A script that makes `name`.svg and `name`.pdf in the folder it is run in.
struct Plot {
  std::string name;
  std::string script;
};

/// Step time and peak memory of every table along its memory fraction, or its last axis, one each
/// for every setting of the others.
std::vector<Plot> chart_plots(const Results& results);

/// Ops and memory of each device over time, for a row that has a picture.
Plot step_plot(const RunResult& row, std::string title);

/// Plots of the steps of the `wanted` runs, or of each graph's fastest run if none is wanted. Only
/// runs that have a picture can be plotted; throws InputError for other wanted runs.
std::vector<Plot> step_plots(const Results& results, const std::vector<std::size_t>& wanted);

/// An architecture of an accelerator, and how fast it trains.
struct PlottedDesign {
  double area_mm2 = 0.0;
  double samples_per_s = 0.0;
  bool on_front = false;
  bool reference = false;
};
/// Throughput over area, with the Pareto front. `designs`: by area.
Plot design_plot(const std::string& name, std::span<const PlottedDesign> designs);

/// Performance profiles: the fraction of points within a factor of the least, the factor
/// logarithmic. `what`: the figure ("step time").
Plot profile_plot(const std::string& name, std::string_view what,
                  std::span<const Profile> profiles);

}  // namespace baechi
