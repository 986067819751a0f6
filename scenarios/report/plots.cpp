#include "scenarios/report/plots.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string_view>

#include "scenarios/read/paths.h"
#include "scenarios/results/tables.h"

namespace baechi {
namespace {

/// As on the page: told apart by people who see few colours.
constexpr std::string_view colours[] = {"#3d7fc4", "#e0872b", "#3a9e60", "#c9485b", "#8a6bc9",
                                        "#9a6a4f", "#d271b5", "#7d848c", "#a5a332", "#31a8b5"};
constexpr std::string_view phase_colours[] = {"0x3d7fc4", "0xe0872b", "0x3a9e60"};
constexpr std::string_view memory_colours[] = {"#7d8fa3", "#5b9bd5", "#e8a95c", "#8cc084"};

/// A string as gnuplot reads it.
std::string literal(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += '\'';
    out += c == '\n' ? ' ' : c;
  }
  return out + '\'';
}

/// `body`, drawn once as SVG and once as PDF, behind `data`.
std::string script(const std::string& name, std::string_view data, std::string_view body,
                   int height) {
  return fmt::format(
      "# gnuplot {0}.gp makes {0}.svg and {0}.pdf\n"
      "set encoding utf8\n{1}"
      "do for [kind in \"svg pdf\"] {{\n"
      "  if (kind eq \"svg\") {{\n"
      "    set terminal svg size 720,{3} dynamic background rgb 'white' font 'sans,13' noenhanced\n"
      "  }} else {{\n"
      "    set terminal pdfcairo size 14cm,{4:.2f}cm font 'sans,9' noenhanced\n"
      "  }}\n"
      "  set output {5} . kind\n"
      "{2}"
      "  unset output\n"
      "}}\n",
      name, data, body, height, 14.0 * height / 720.0, literal(name + "."));
}

struct Unit {
  double scale;
  std::string_view name;
};
Unit time_unit(double most_ns) {
  if (most_ns >= 1e9) return {1e9, "s"};
  if (most_ns >= 1e6) return {1e6, "ms"};
  return most_ns >= 1e3 ? Unit{1e3, "us"} : Unit{1.0, "ns"};
}
Unit size_unit(double most_bytes) {
  if (most_bytes >= 1024.0 * 1024.0 * 1024.0) return {1024.0 * 1024.0 * 1024.0, "GiB"};
  if (most_bytes >= 1024.0 * 1024.0) return {1024.0 * 1024.0, "MiB"};
  return most_bytes >= 1024.0 ? Unit{1024.0, "KiB"} : Unit{1.0, "B"};
}

/// What one chart shows: columns of a table, along one of its axes.
struct Shown {
  const ResultTable& table;
  std::size_t axis;
  std::vector<std::size_t> columns;
};

/// Where the columns stand: at their numbers, if these ascend, else one after another.
struct Positions {
  std::vector<double> at;
  std::string setup;  // of the x axis
  std::string marks;  // its tics without labels
};
Positions positions(const Shown& shown) {
  Positions p;
  bool ascending = true;
  for (const std::size_t c : shown.columns) {
    const auto number = parse_number<double>(shown.table.columns[c][shown.axis]);
    ascending = ascending && number && (p.at.empty() || *number > p.at.back());
    if (!ascending) break;
    p.at.push_back(*number);
  }
  if (!ascending) {
    p.at.clear();
    for (std::size_t i = 0; i < shown.columns.size(); ++i) p.at.push_back(static_cast<double>(i));
  }
  std::string tics, marks;
  for (std::size_t i = 0; i < p.at.size(); ++i) {
    const std::string& value = shown.table.shown[shown.columns[i]][shown.axis];
    tics += fmt::format("{}{} {}", i > 0 ? ", " : "", literal(value), p.at[i]);
    marks += fmt::format("{}'' {}", i > 0 ? ", " : "", p.at[i]);
  }
  const double margin = 0.04 * (p.at.back() - p.at.front());
  p.setup = fmt::format("  set xrange [{}:{}]\n  set xtics ({})\n", p.at.front() - margin,
                        p.at.back() + margin, tics);
  p.marks = fmt::format("  set xtics ({}) scale 0\n", marks);
  return p;
}

/// A data block per row, named $PREFIX0, $PREFIX1, ...; NaN where there is nothing.
std::string blocks(const Shown& shown, const Positions& x, std::string_view prefix, Unit unit,
                   auto value_of) {
  std::string out;
  for (std::size_t r = 0; r < shown.table.rows.size(); ++r) {
    out += fmt::format("${}{} << EOD\n", prefix, r);
    for (std::size_t i = 0; i < shown.columns.size(); ++i) {
      const RunResult* run = shown.table.rows[r].cells[shown.columns[i]];
      const std::optional<double> value = run == nullptr ? std::nullopt : value_of(*run);
      out += value ? fmt::format("{} {}\n", x.at[i], *value / unit.scale)
                   : fmt::format("{} NaN\n", x.at[i]);
    }
    out += "EOD\n";
  }
  return out;
}

std::string plot_lines(const ResultTable& table, std::string_view prefix) {
  std::string out;
  for (std::size_t r = 0; r < table.rows.size(); ++r)
    out += fmt::format(
        "${}{} using 1:2 with linespoints pt 7 ps 0.5 lw 1.5 dt {} lc rgb '{}' title {}, \\\n   "
        " ",
        prefix, r, r / std::size(colours) + 1, colours[r % std::size(colours)],
        literal(table.rows[r].name));
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
    f.tics += fmt::format("{}{} {}", f.placers > 0 ? ", " : "", literal(row.name), f.placers);
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
                          shown.table.shown[shown.columns.front()][a]);
  return text;
}

/// Margins in parts of a picture of this height, the key in the lower one.
std::string frame(int height) {
  return fmt::format(
      "  set grid lc rgb '#dddddd'\n  set border 3\n  set tics nomirror\n"
      "  set key at screen 0.5, screen 0.01 center bottom horizontal Left reverse samplen 2 font "
      "',11'\n"
      "  set lmargin at screen 0.15\n  set rmargin at screen 0.97\n  set bmargin at screen "
      "{:.4f}\n",
      155.0 / height);
}

/// The lower bounds as a data block, empty if none is known.
std::string bound_block(const Shown& shown, const Positions& x, Unit unit) {
  std::string points;
  for (std::size_t i = 0; i < shown.columns.size(); ++i)
    if (const auto& bound = shown.table.bounds[shown.columns[i]])
      points += fmt::format("{} {}\n", x.at[i], static_cast<double>(bound->count()) / unit.scale);
  return points.empty() ? "" : fmt::format("$bound << EOD\n{}EOD\n", points);
}

Plot value_plot(const Shown& shown, const Positions& x, const std::string& name) {
  double most = 1.0;
  for (const std::size_t c : shown.columns) {
    most = std::max(most, static_cast<double>(shown.table.bounds[c].value_or(Duration{}).count()));
    for (const ResultTable::Row& row : shown.table.rows)
      if (row.cells[c] != nullptr && row.cells[c]->value)
        most = std::max(most, static_cast<double>(row.cells[c]->value->count()));
  }
  const Unit unit = time_unit(most);
  std::string data = blocks(shown, x, "t", unit, [](const RunResult& run) {
    return run.value ? std::optional(static_cast<double>(run.value->count())) : std::nullopt;
  });
  const std::string bounds = bound_block(shown, x, unit);
  const Failures failed = failures(shown, x);
  data += bounds + failed.data;

  const int height = 480 + 18 * static_cast<int>(failed.placers);
  const double top = 0.93;
  const double strip = (18.0 * static_cast<double>(failed.placers) + 4.0) / height;
  std::string body = fmt::format("  set multiplot title {}\n{}{}", literal(held_text(shown)),
                                 frame(height), x.setup);
  body += fmt::format(
      "  set tmargin at screen {}\n  set yrange [0:*]\n  set ylabel {}\n"
      "  set xlabel {}\n  plot {}{}{}\n",
      top - strip - (failed.placers > 0 ? 0.03 : 0.0),
      literal(fmt::format("{} [{}]", shown.table.figure(), unit.name)),
      literal(shown.table.axes[shown.axis]), plot_lines(shown.table, "t"),
      bounds.empty() ? "NaN notitle"
                     : "$bound using 1:2 with lines dt 2 lc rgb '#666666' title 'lower bound'",
      // Keys of the strip's marks, which is a plot of its own.
      failed.placers > 0
          ? ", \\\n    NaN with points pt 2 ps 0.8 lc rgb '#c2352b' title 'out of memory', "
            "\\\n    NaN with points pt 13 ps 0.7 lc rgb '#d39a1d' title 'infeasible', "
            "\\\n    NaN with points pt 9 ps 0.8 lc rgb '#7b52ab' title 'error'"
          : "");
  if (failed.placers > 0)
    body += fmt::format(
        "  set bmargin at screen {}\n  set tmargin at screen {}\n  unset xlabel\n  unset ylabel\n"
        "{}  set yrange [{}:-0.6]\n  set ytics ({}) font ',9'\n  set border 2\n"
        "  unset key\n  plot $oom using 1:2 with points pt 2 ps 0.8 lw 2 lc rgb '#c2352b', \\\n"
        "    $infeasible using 1:2 with points pt 13 ps 0.7 lc rgb '#d39a1d', \\\n"
        "    $error using 1:2 with points pt 9 ps 0.8 lc rgb '#7b52ab'\n"
        "  set ytics auto font ''\n  set xtics scale 1\n",
        top - strip, top, x.marks, static_cast<double>(failed.placers) - 0.4, failed.tics);
  body += "  unset multiplot\n";
  return {name, script(name, data, body, height)};
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
  const Unit unit = size_unit(most);
  std::string data = blocks(shown, x, "m", unit, [](const RunResult& run) {
    return run.peak ? std::optional(static_cast<double>(run.peak->count)) : std::nullopt;
  });
  data += "$limit << EOD\n";
  for (std::size_t i = 0; i < limits.size(); ++i)
    data += fmt::format("{} {}\n", x.at[i], limits[i] / unit.scale);
  data += "EOD\n";
  constexpr int height = 480;
  const bool in_sight = most > limit / 4;  // else it would press the lines to the ground
  const std::string body = fmt::format(
      "  set title {}\n{}{}  set tmargin at screen 0.93\n  set yrange [0:*]\n"
      "  set ylabel {}\n  set xlabel {}\n  plot {}{}\n",
      literal(held_text(shown)), frame(height), x.setup,
      literal(fmt::format("peak memory [{}], of {}", unit.name,
                          to_text(Bytes{static_cast<std::int64_t>(limit)}))),
      literal(shown.table.axes[shown.axis]), plot_lines(shown.table, "m"),
      in_sight ? "$limit using 1:2 with lines dt 2 lc rgb '#c2352b' title 'device memory'"
               : "NaN notitle");
  return {name, script(name, data, body, height)};
}

/// The tracks of one device, above `y`, as blocks.
struct DeviceBlocks {
  std::string data, plots, labels;
};
DeviceBlocks device_blocks(const nlohmann::json& picture, std::size_t number, double y,
                           double memory_scale, double time_scale) {
  const nlohmann::json& device = picture["devices"][number];
  const double quantum = picture["quantum"].get<double>() / time_scale;
  const double end = picture["ns"].get<double>() / time_scale;
  DeviceBlocks d;
  const auto boxes = [&](const char* track, std::size_t width, double low, double high,
                         auto colour) {
    const auto& flat = device[track];
    if (flat.empty()) return;
    d.data += fmt::format("${}{} << EOD\n", track, number);
    double at = 0.0;
    for (std::size_t i = 0; i + width <= flat.size(); i += width) {
      at += flat[i].get<double>() * quantum;
      d.data += fmt::format("{:.9g} {:.9g} {}\n", at,
                            std::min(end, at + flat[i + 1].get<double>() * quantum),
                            colour(flat[i + 4].get<std::size_t>()));
    }
    d.data += "EOD\n";
    d.plots += fmt::format(
        "${}{} using 1:({}):1:2:({}):({}):3 with boxxyerror fs solid border lw 0.4 lc rgb variable "
        "notitle, \\\n    ",
        track, number, y + low, y + low, y + high);
  };
  boxes("compute", 6, 6.4, 9.4, [](std::size_t phase) { return phase_colours[phase % 3]; });
  boxes("send", 5, 5.4, 6.1, [](std::size_t) { return "0x1f9aa8"; });
  boxes("receive", 5, 4.5, 5.2, [](std::size_t) { return "0x8a6bc9"; });

  const auto& flat = device["memory"];
  const double unit = picture["unit"].get<double>() * memory_scale;
  for (std::size_t kind = 4; kind-- > 0 && !flat.empty();) {
    d.data += fmt::format("$memory{}_{} << EOD\n", number, kind);
    double at = 0.0, before = 0.0;
    for (std::size_t i = 0; i + 5 <= flat.size(); i += 5) {
      at += flat[i].get<double>() * quantum;
      double top = 0.0;
      for (std::size_t k = 0; k <= kind; ++k) top += flat[i + 1 + k].get<double>() * unit;
      if (i > 0) d.data += fmt::format("{:.9g} {:.6g}\n", at, y + before);
      d.data += fmt::format("{:.9g} {:.6g}\n", at, y + top);
      before = top;
    }
    d.data += fmt::format("{:.9g} {:.6g}\nEOD\n", end, y + before);
    d.plots += fmt::format(
        "$memory{}_{} using 1:2:({}) with filledcurves fs solid noborder lc rgb '{}' notitle, "
        "\\\n    ",
        number, kind, y, memory_colours[kind]);
  }
  const double limit = y + device["limit"].get<double>() * memory_scale;
  if (limit <= y + 4.3)
    d.labels += fmt::format(
        "  set arrow from 0,{0:.6g} to {1:.9g},{0:.6g} nohead dt 2 lc rgb '#c2352b' front\n", limit,
        end);
  const Bytes peak{device["peak"].get<std::int64_t>()}, memory{device["limit"].get<std::int64_t>()};
  d.labels += fmt::format(
      "  set label {} at graph -0.01, first {} right\n"
      "  set label {} at graph -0.01, first {} right font ',8' textcolor rgb '#555555'\n"
      "  set label {} at graph -0.01, first {} right font ',8' textcolor rgb '#555555'\n",
      literal(device["name"].get<std::string>()), y + 7.9, literal(to_text(peak)), y + 2.6,
      literal("of " + to_text(memory)), y + 1.0);
  return d;
}

}  // namespace

std::vector<Plot> chart_plots(const Results& results) {
  std::vector<Plot> plots;
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
      const std::string where = plain_file_name(fmt::format(
          "{}.{}{}{}", results.scenarios[table.scenario].name, results.graphs[table.graph].label,
          shown.table.axes.size() > 1 ? "." : "", held_text(shown)));
      const std::string measure = plain_file_name(table.measure);
      plots.push_back(value_plot(shown, x, measure + "." + where));
      if (!table.has_peaks()) continue;
      const std::string of = table.is_step_time() ? "" : measure + ".";
      plots.push_back(memory_plot(shown, x, "peak_memory." + of + where));
    }
  }
  return plots;
}

Plot step_plot(const RunResult& row, std::string title) {
  const auto picture = nlohmann::json::parse(row.picture);
  const std::size_t devices = picture["devices"].size();
  const double length = std::max(1.0, picture["ns"].get<double>());
  const Unit unit = time_unit(length);
  double most = 1.0, limit = 0.0;
  for (const auto& device : picture["devices"]) {
    most = std::max(most, device["peak"].get<double>());
    limit = std::max(limit, device["limit"].get<double>());
  }
  const double memory_scale = 4.0 / (most > limit / 2 ? std::max(limit, most) : most);
  constexpr double pitch = 11.0;
  std::string data, plots, labels;
  for (std::size_t d = 0; d < devices; ++d) {
    const double y = pitch * static_cast<double>(devices - 1 - d);
    DeviceBlocks blocks = device_blocks(picture, d, y, memory_scale, unit.scale);
    data += blocks.data;
    plots += blocks.plots;
    labels += blocks.labels;
  }
  std::string keys;
  for (const auto& [colour, what] :
       std::initializer_list<std::pair<const char*, const char*>>{{"#3d7fc4", "forward"},
                                                                  {"#e0872b", "backward"},
                                                                  {"#3a9e60", "update"},
                                                                  {"#1f9aa8", "sends"},
                                                                  {"#8a6bc9", "receives"},
                                                                  {"#7d8fa3", "weights"},
                                                                  {"#5b9bd5", "outputs"},
                                                                  {"#e8a95c", "copies"},
                                                                  {"#8cc084", "workspace"}})
    keys += fmt::format("NaN with boxes fs solid noborder lc rgb '{}' title '{}', \\\n    ", colour,
                        what);
  const std::string name = plain_file_name(fmt::format("step.{}.{}", row.id, row.placer));
  if (!picture["oom"].is_null())
    title +=
        ": out of memory on " +
        picture["devices"][picture["oom"]["device"].get<std::size_t>()]["name"].get<std::string>();
  const int height = 160 + 95 * static_cast<int>(std::min<std::size_t>(devices, 40));
  const std::string body = fmt::format(
      "  set title {}\n  unset ytics\n  set border 1\n  set xtics nomirror\n"
      "  set lmargin at screen 0.15\n  set rmargin at screen 0.97\n  set bmargin at screen {:.4f}\n"
      "  set xrange [0:{:.9g}]\n  set yrange [-1:{}]\n  set xlabel 'time [{}]'\n"
      "  set key at screen 0.5, screen 0.01 center bottom horizontal Left reverse samplen 1 font "
      "',11'\n{}"
      "  plot {}{}NaN notitle\n  unset label\n  unset arrow\n",
      literal(title), 120.0 / height, length / unit.scale, pitch * static_cast<double>(devices),
      unit.name, labels, plots, keys);
  return {name, script(name, data, body, height)};
}

}  // namespace baechi
