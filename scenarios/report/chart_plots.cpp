#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "scenarios/read/paths.h"
#include "scenarios/report/gnuplot_script.h"
#include "scenarios/report/plots.h"
#include "scenarios/results/axis_scale.h"
#include "scenarios/results/tables.h"

namespace baechi {
namespace {

/// What one chart shows: columns of a table, along one of its axes.
struct Shown {
  const ResultTable& table;
  std::size_t axis;
  std::vector<std::size_t> columns;
};

/// Where the columns stand, and the x axis.
struct Positions {
  std::vector<double> at{};
  bool words = false;  // in no order: dots, without lines
  std::string setup{};
  std::string marks{};  // its tics without labels
  int below = 175;      // pixels under the axis: its labels, its name and the key
};
Positions positions(const Shown& shown) {
  std::vector<std::string> values;
  for (const std::size_t c : shown.columns) values.push_back(shown.table.columns[c][shown.axis]);
  const AxisScale scale = axis_scale(values);
  Positions p{.at = scale.at, .words = scale.kind == AxisScale::Kind::words};
  const std::vector<std::string> labels = short_values(values);
  std::string tics, marks;
  for (std::size_t i = 0; i < p.at.size(); ++i) {
    tics += fmt::format("{}{} {}", i > 0 ? ", " : "", gnuplot_literal(labels[i]), p.at[i]);
    marks += fmt::format("{}'' {}", i > 0 ? ", " : "", p.at[i]);
  }
  const auto [low, high] = std::ranges::minmax(p.at);
  if (scale.kind == AxisScale::Kind::logarithmic) {
    const double margin = std::pow(high / low, 0.04);
    p.setup = fmt::format("  set logscale x\n  set xrange [{}:{}]\n", low / margin, high * margin);
  } else {
    const double margin = p.words ? 0.5 : 0.04 * (high - low);
    p.setup = fmt::format("  set xrange [{}:{}]\n", low - margin, high + margin);
  }
  std::size_t letters = 0;
  for (const std::string& label : labels) letters += label.size() + 2;
  const bool slanted = letters > 80;
  if (slanted) p.below += 40;
  p.setup += fmt::format("  set xtics ({}){}\n", tics, slanted ? " rotate by -30" : "");
  if (slanted) p.setup += "  set xlabel offset 0,2.2\n";  // gnuplot leaves room for upright names
  p.marks = fmt::format("  set xtics ({}) scale 0\n", marks);
  return p;
}

/// Values of the rows, in the order of the columns shown; NaN where there is nothing.
std::vector<std::vector<double>> values_of(const Shown& shown, double scale, auto value_of) {
  std::vector<std::vector<double>> values;
  for (const ResultTable::Row& row : shown.table.rows) {
    values.emplace_back();
    for (const std::size_t c : shown.columns) {
      const RunResult* run = row.cells[c];
      const std::optional<double> value = run == nullptr ? std::nullopt : value_of(*run);
      values.back().push_back(value ? *value / scale : NAN);
    }
  }
  return values;
}

/// A data block, NaN where there is nothing. In the order of x, as a line is drawn.
std::string block(const std::string& name, const Positions& x, const std::vector<double>& y) {
  std::vector<std::pair<double, double>> points;
  for (std::size_t i = 0; i < y.size(); ++i) points.emplace_back(x.at[i], y[i]);
  std::ranges::stable_sort(points, {}, &std::pair<double, double>::first);
  std::string out = fmt::format("${} << EOD\n", name);
  for (const auto& [at, value] : points)
    out += std::isnan(value) ? fmt::format("{} NaN\n", at) : fmt::format("{} {}\n", at, value);
  return out + "EOD\n";
}

/// Names at the right ends of lines, moved apart where they would overlap. `most`: the top of y.
std::string direct_labels(const ResultTable& table, const Positions& x,
                          const std::vector<std::vector<double>>& values, double most) {
  struct Label {
    std::size_t row;
    double y;
  };
  std::vector<Label> labels;
  std::vector<std::size_t> order(x.at.size());
  for (std::size_t i = 0; i < order.size(); ++i) order[i] = i;
  std::ranges::sort(order, std::greater{}, [&](std::size_t i) { return x.at[i]; });
  for (std::size_t r = 0; r < values.size(); ++r) {
    for (const std::size_t i : order) {
      if (std::isnan(values[r][i])) continue;
      labels.push_back({r, values[r][i] / most});
      break;
    }
  }
  std::ranges::stable_sort(labels, {}, &Label::y);
  constexpr double apart = 0.042;
  for (std::size_t i = 1; i < labels.size(); ++i)
    labels[i].y = std::max(labels[i].y, labels[i - 1].y + apart);
  double top = 1.0;
  for (std::size_t i = labels.size(); i-- > 0; top = labels[i].y - apart)
    labels[i].y = std::min(labels[i].y, top);
  std::string out;
  for (const Label& label : labels)
    out +=
        fmt::format("  set label {} at graph 1.01, graph {:.3f} left font ',10' tc rgb '{}'\n",
                    gnuplot_literal(table.rows[label.row].name), label.y, placer_colour(label.row));
  return out;
}

std::string plot_lines(const Shown& shown, const Positions& x, std::string_view prefix) {
  std::string out;
  for (std::size_t r = 0; r < shown.table.rows.size(); ++r)
    out += fmt::format("${}{} using 1:2 with {} {} ps 0.7 lw 1.5 title {}, \\\n    ", prefix, r,
                       x.words ? "points" : "linespoints", placer_look(r),
                       gnuplot_literal(shown.table.rows[r].name));
  return out;
}

/// Runs without a step time: one line per placer that has any, above the chart.
struct Failures {
  std::size_t placers = 0;
  std::string data, tics;
};
Failures failures(const Shown& shown, const Positions& x) {
  Failures f;
  std::string oom, infeasible, error;
  for (const ResultTable::Row& row : shown.table.rows) {
    std::string here_oom, here_infeasible, here_error;
    for (std::size_t i = 0; i < shown.columns.size(); ++i) {
      const RunResult* run = row.cells[shown.columns[i]];
      if (run == nullptr || run->status == Status::ok) continue;
      (run->status == Status::oom          ? here_oom
       : run->status == Status::infeasible ? here_infeasible
                                           : here_error) +=
          fmt::format("{} {}\n", x.at[i], f.placers);
    }
    if (here_oom.empty() && here_infeasible.empty() && here_error.empty()) continue;
    f.tics +=
        fmt::format("{}{} {}", f.placers > 0 ? ", " : "", gnuplot_literal(row.name), f.placers);
    oom += here_oom;
    infeasible += here_infeasible;
    error += here_error;
    ++f.placers;
  }
  // An empty block is an error to gnuplot; a point that is none is not.
  const auto block = [&f](std::string_view name, const std::string& points) {
    f.data += fmt::format("${} << EOD\n{}EOD\n", name, points.empty() ? "NaN NaN\n" : points);
  };
  block("oom", oom);
  block("infeasible", infeasible);
  block("error", error);
  return f;
}

std::string held_text(const Shown& shown) {
  std::string text;
  for (std::size_t a = 0; a < shown.table.axes.size(); ++a)
    if (a != shown.axis)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", shown.table.axes[a],
                          short_value(shown.table.columns[shown.columns.front()][a]));
  return text;
}

/// The same, behind the options of the measure, if it has any.
std::string title_text(const Shown& shown) {
  const std::string held = held_text(shown);
  const std::string& measure = shown.table.measure;
  if (measure.find(':') == std::string::npos) return held;
  return measure + (held.empty() ? "" : ", ") + held;
}

/// Margins in parts of a picture of this height, the key in the lower one, names at the right.
std::string frame(int height, int below) {
  return fmt::format(
      "  set grid lc rgb '#dddddd'\n  set border 3\n  set tics nomirror\n"
      "  set key at screen 0.5, screen 0.01 center bottom horizontal Left reverse samplen 2 font "
      "',11'\n"
      "  set lmargin at screen 0.13\n  set rmargin at screen 0.82\n  set bmargin at screen "
      "{:.4f}\n",
      static_cast<double>(below) / height);
}

Plot value_plot(const Shown& shown, const Positions& x, const std::string& name) {
  double most = 1.0;
  for (const std::size_t c : shown.columns) {
    if (const auto& bound = shown.table.bounds[c])
      most = std::max(most, static_cast<double>(bound->count()));
    for (const ResultTable::Row& row : shown.table.rows)
      if (row.cells[c] != nullptr && row.cells[c]->value)
        most = std::max(most, static_cast<double>(row.cells[c]->value->count()));
  }
  const PlotUnit unit = time_unit(most);
  const auto values = values_of(shown, unit.scale, [](const RunResult& run) {
    return run.value ? std::optional(static_cast<double>(run.value->count())) : std::nullopt;
  });
  const double top_of_y = 1.04 * most / unit.scale;
  std::string data;
  for (std::size_t r = 0; r < values.size(); ++r)
    data += block(fmt::format("t{}", r), x, values[r]);
  std::vector<double> bounds;
  for (const std::size_t c : shown.columns)
    bounds.push_back(shown.table.bounds[c]
                         ? static_cast<double>(shown.table.bounds[c]->count()) / unit.scale
                         : std::nan(""));
  data += block("bound", x, bounds);
  const Failures failed = failures(shown, x);
  data += failed.data;

  const int height = 305 + x.below + 18 * static_cast<int>(failed.placers);
  const double top = 0.93;
  const double strip = (18.0 * static_cast<double>(failed.placers) + 4.0) / height;
  std::string body =
      fmt::format("  set multiplot title {}\n{}{}", gnuplot_literal(title_text(shown)),
                  frame(height, x.below), x.setup);
  body += fmt::format(
      "  set tmargin at screen {}\n  set yrange [0:{}]\n{}  set ylabel {}\n"
      "  set xlabel {}\n  plot {}$bound using 1:2 with lines dt 2 lc rgb '#666666' title 'lower "
      "bound'{}\n",
      top - strip - (failed.placers > 0 ? 0.03 : 0.0), top_of_y,
      direct_labels(shown.table, x, values, top_of_y),
      gnuplot_literal(fmt::format("{} [{}]", shown.table.figure(), unit.name)),
      gnuplot_literal(shown.table.axes[shown.axis]), plot_lines(shown, x, "t"),
      // Keys of the strip's marks, which is a plot of its own.
      failed.placers > 0
          ? ", \\\n    NaN with points pt 2 ps 0.8 lc rgb '#c2352b' title 'out of memory', "
            "\\\n    NaN with points pt 13 ps 0.7 lc rgb '#d39a1d' title 'infeasible', "
            "\\\n    NaN with points pt 9 ps 0.8 lc rgb '#7b52ab' title 'error'"
          : "");
  if (failed.placers > 0)
    body += fmt::format(
        "  set bmargin at screen {}\n  set tmargin at screen {}\n  unset xlabel\n  unset ylabel\n"
        "unset label\n{}  set yrange [{}:-0.6]\n  set ytics ({}) font ',9'\n  set border 2\n"
        "  unset key\n  plot $oom using 1:2 with points pt 2 ps 0.8 lw 2 lc rgb '#c2352b', \\\n"
        "    $infeasible using 1:2 with points pt 13 ps 0.7 lc rgb '#d39a1d', \\\n"
        "    $error using 1:2 with points pt 9 ps 0.8 lc rgb '#7b52ab'\n"
        "  set ytics auto font ''\n  set xtics scale 1\n",
        top - strip, top, x.marks, static_cast<double>(failed.placers) - 0.4, failed.tics);
  body += "  unset multiplot\n  unset label\n  unset logscale\n";
  return {name, gnuplot_script(name, data, body, height)};
}

Plot memory_plot(const Shown& shown, const Positions& x, const std::string& name) {
  double most = 1.0, limit = 0.0;
  std::vector<double> limits;
  for (const std::size_t c : shown.columns) {
    limits.push_back(0.0);
    for (const ResultTable::Row& row : shown.table.rows) {
      if (row.cells[c] == nullptr) continue;
      limits.back() = static_cast<double>(row.cells[c]->memory.count);
      if (row.cells[c]->peak) most = std::max(most, static_cast<double>(row.cells[c]->peak->count));
    }
    limit = std::max(limit, limits.back());
  }
  const PlotUnit unit = size_unit(most);
  const auto values = values_of(shown, unit.scale, [](const RunResult& run) {
    return run.peak ? std::optional(static_cast<double>(run.peak->count)) : std::nullopt;
  });
  std::string data;
  for (std::size_t r = 0; r < values.size(); ++r)
    data += block(fmt::format("m{}", r), x, values[r]);
  for (double& bytes : limits) bytes /= unit.scale;
  data += block("limit", x, limits);
  const int height = 305 + x.below;
  const bool in_sight = most > limit / 4;  // else it would press the lines to the ground
  const double top_of_y = 1.04 * std::max(most, in_sight ? limit : 0.0) / unit.scale;
  const std::string body = fmt::format(
      "  set title {}\n{}{}  set tmargin at screen 0.93\n  set yrange [0:{}]\n{}"
      "  set ylabel {}\n  set xlabel {}\n  plot {}{}\n",
      gnuplot_literal(held_text(shown)), frame(height, x.below), x.setup, top_of_y,
      direct_labels(shown.table, x, values, top_of_y),
      gnuplot_literal(fmt::format("peak memory [{}], of {}", unit.name,
                                  to_text(Bytes{static_cast<std::int64_t>(limit)}))),
      gnuplot_literal(shown.table.axes[shown.axis]), plot_lines(shown, x, "m"),
      in_sight
          ? "$limit using 1:2 with lines dt 2 lc rgb '#c2352b' title 'device memory'\n  unset label"
          : "NaN notitle\n  unset label");
  return {name, gnuplot_script(name, data, body, height)};
}

}  // namespace

std::vector<Plot> chart_plots(const Results& results) {
  std::vector<Plot> plots;
  std::size_t charted = 0;
  for (const ResultTable& table : result_tables(results)) {
    if (table.axes.empty()) continue;
    const auto memory = std::ranges::find(table.axes, "memory fraction");
    const auto axis =
        static_cast<std::size_t>(std::min(memory - table.axes.begin(), std::ssize(table.axes) - 1));
    std::vector<std::vector<std::string>> settings;  // of the other axes
    std::vector<Shown> charts;
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      std::vector<std::string> others = table.columns[c];
      others.erase(others.begin() + static_cast<std::ptrdiff_t>(axis));
      const auto it = std::ranges::find(settings, others);
      const auto at = static_cast<std::size_t>(it - settings.begin());
      if (it == settings.end()) {
        settings.push_back(others);
        charts.push_back({table, axis, {}});
      }
      charts[at].columns.push_back(c);
    }
    for (const Shown& shown : charts) {
      if (shown.columns.size() < 2) continue;
      const Positions x = positions(shown);
      // The number makes names differ that are cut, or differ in what a file's name cannot have.
      const std::string where = plain_file_name(
          fmt::format("{:03}.{}.{}{}{}", ++charted, results.scenarios[table.scenario].name,
                      results.graphs[table.graph].label, shown.table.axes.size() > 1 ? "." : "",
                      held_text(shown)));
      const std::string measure = plain_file_name(table.measure);
      plots.push_back(value_plot(shown, x, fmt::format("{}.{}", measure, where)));
      if (!table.has_peaks()) continue;
      const std::string of = table.is_step_time() ? "" : measure + ".";
      plots.push_back(memory_plot(shown, x, fmt::format("peak_memory.{}{}", of, where)));
    }
  }
  return plots;
}

}  // namespace baechi
