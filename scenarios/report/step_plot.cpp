#include <fmt/ranges.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "scenarios/read/paths.h"
#include "scenarios/report/gnuplot_script.h"
#include "scenarios/report/plots.h"
#include "scenarios/results/tables.h"
#include "sim/error.h"

namespace baechi {
namespace {

constexpr std::string_view phase_colours[] = {"0x3d7fc4", "0xe0872b", "0x3a9e60"};
constexpr std::string_view memory_colours[] = {"#7d8fa3", "#5b9bd5", "#e8a95c", "#8cc084"};

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
      gnuplot_literal(device["name"].get<std::string>()), y + 7.9, gnuplot_literal(to_text(peak)),
      y + 2.6, gnuplot_literal("of " + to_text(memory)), y + 1.0);
  return d;
}

}  // namespace

Plot step_plot(const RunResult& row, std::string title) {
  const auto picture = nlohmann::json::parse(row.picture);
  const std::size_t devices = picture["devices"].size();
  const double length = std::max(1.0, picture["ns"].get<double>());
  const PlotUnit unit = time_unit(length);
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
      gnuplot_literal(title), 120.0 / height, length / unit.scale,
      pitch * static_cast<double>(devices), unit.name, labels, plots, keys);
  return {name, gnuplot_script(name, data, body, height)};
}

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

}  // namespace baechi
