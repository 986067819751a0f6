#include <fmt/ranges.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "placers/external/child_process.h"
#include "scenarios/read/paths.h"
#include "scenarios/report/html.h"
#include "sim/file_aside.h"

namespace baechi {
namespace {

namespace fs = std::filesystem;

/// What one chart shows: columns of a table, along one of its axes.
struct Shown {
  const ResultTable& table;
  std::size_t axis;
  std::vector<std::size_t> columns;
};

std::string text_cell(std::string_view text) {
  return csv_cell(std::string(text), ColumnType::text);
}

/// "gpt, devices 4": the settings of the other axes.
std::string held_text(const Shown& shown) {
  std::string text;
  for (std::size_t a = 0; a < shown.table.axes.size(); ++a)
    if (a != shown.axis)
      text += fmt::format("{}{} {}", text.empty() ? "" : ", ", shown.table.axes[a],
                          short_value(shown.table.columns[shown.columns.front()][a]));
  return text;
}

/// The rows of a chart. Columns: the placer, or a limit; the swept value; where it stands on the
/// axis ("log position": the axis is logarithmic); the figure, in us or MiB; and what the row is: a
/// status, or word (a value on an axis without order) or bound.
class ChartCsv {
 public:
  ChartCsv(const Shown& shown, std::string_view figure) : shown_(shown) {
    for (const std::size_t c : shown.columns) values_.push_back(shown.table.columns[c][shown.axis]);
    scale_ = axis_scale(values_);
    values_ = short_values(values_);
    text_ = fmt::format("placer,{},{},{},status\n", text_cell(shown.table.axes[shown.axis]),
                        scale_.kind == AxisScale::Kind::logarithmic ? "log position" : "position",
                        text_cell(figure));
  }

  /// `value_of(run)`: in the figure's unit, if it has one.
  void add_runs(auto value_of) {
    for (const ResultTable::Row& row : shown_.table.rows)
      for (std::size_t i = 0; i < shown_.columns.size(); ++i) {
        const RunResult* run = row.cells[shown_.columns[i]];
        if (run == nullptr) continue;
        const bool ordered = scale_.kind != AxisScale::Kind::words;
        add(row.name, i, value_of(*run),
            run->status == Status::ok && !ordered ? "word" : to_text(run->status));
      }
  }
  void add(std::string_view name, std::size_t i, std::optional<double> value,
           std::string_view what) {
    text_ += fmt::format("{},{},{:.9g},{},{}\n", text_cell(name), text_cell(values_[i]),
                         scale_.at[i], value ? fmt::format("{:.9g}", *value) : "", what);
  }
  const std::string& text() const { return text_; }

 private:
  const Shown& shown_;
  std::vector<std::string> values_;
  AxisScale scale_;
  std::string text_;
};

Plot value_plot(const Shown& shown, const std::string& name) {
  ChartCsv csv(shown, shown.table.figure() + " [us]");
  csv.add_runs([](const RunResult& run) {
    return run.value ? std::optional(to_us(*run.value)) : std::nullopt;
  });
  for (std::size_t i = 0; i < shown.columns.size(); ++i)
    if (const auto& bound = shown.table.bounds[shown.columns[i]])
      csv.add("lower bound", i, to_us(*bound), "bound");
  return {name, csv.text()};
}

Plot memory_plot(const Shown& shown, const std::string& name) {
  const auto mib = [](Bytes bytes) { return static_cast<double>(bytes.count) / 0x1p20; };
  ChartCsv csv(shown, "peak memory [MiB]");
  csv.add_runs([&](const RunResult& run) {
    return run.peak ? std::optional(mib(*run.peak)) : std::nullopt;
  });
  for (std::size_t i = 0; i < shown.columns.size(); ++i)
    for (const ResultTable::Row& row : shown.table.rows)
      if (const RunResult* run = row.cells[shown.columns[i]]) {
        csv.add("device memory", i, mib(run->memory), "bound");
        break;
      }
  return {name, csv.text()};
}

Plot step_plot(const RunResult& row) {
  return {plain_file_name(fmt::format("step.{}.{}", row.id, row.placer)), step_csv(row.picture)};
}

}  // namespace

std::string step_csv(const std::string& picture_text) try {
  constexpr std::array phases{"forward", "backward", "update"};
  constexpr std::array kinds{"weights", "outputs", "copies", "workspace"};
  const auto picture = nlohmann::json::parse(picture_text);
  const double quantum = picture.at("quantum").get<double>() / 1e3;
  const double end = picture.at("ns").get<double>() / 1e3;
  const double unit = picture.at("unit").get<double>() / 0x1p20;
  std::string text = "device,track,what,start_us,end_us,mib\n";
  for (const auto& device : picture.at("devices")) {
    const std::string name = text_cell(device.at("name").get<std::string>());
    for (const auto& [track, width] :
         {std::pair{"compute", 6UL}, {"send", 5UL}, {"receive", 5UL}}) {
      const auto& flat = device.at(track);
      double at = 0.0;
      for (std::size_t i = 0; i + width <= flat.size(); i += width) {
        at += flat.at(i).get<double>() * quantum;
        text += fmt::format("{},{},{},{:.9g},{:.9g},\n", name, track,
                            width == 6 ? phases[flat.at(i + 4).get<std::size_t>() % 3] : track, at,
                            std::min(end, at + flat.at(i + 1).get<double>() * quantum));
      }
    }
    const auto& flat = device.at("memory");
    double at = 0.0;
    for (std::size_t i = 0; i + 5 <= flat.size(); i += 5) {
      at += flat.at(i).get<double>() * quantum;
      for (std::size_t k = 0; k < kinds.size(); ++k)
        text += fmt::format("{},memory,{},{:.9g},,{:.6g}\n", name, kinds[k], at,
                            flat.at(i + 1 + k).get<double>() * unit);
    }
    text += fmt::format("{},limit,,0,{:.9g},{:.6g}\n", name, end,
                        device.at("limit").get<double>() / 0x1p20);
  }
  if (const auto& oom = picture.at("oom"); !oom.is_null())
    text += text_cell(picture.at("devices")
                          .at(oom.at("device").get<std::size_t>())
                          .at("name")
                          .get<std::string>()) +
            ",oom,,,,\n";
  return text;
} catch (const nlohmann::json::exception& e) {
  throw InputError(fmt::format("the picture of a step is malformed: {}", e.what()));
}

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
      // The number makes names differ that are cut, or differ in what a file's name cannot have.
      const std::string where = plain_file_name(
          fmt::format("{:03}.{}.{}{}{}", ++charted, results.scenarios[table.scenario].name,
                      results.graphs[table.graph].label, shown.table.axes.size() > 1 ? "." : "",
                      held_text(shown)));
      const std::string measure = plain_file_name(table.measure);
      plots.push_back(value_plot(shown, fmt::format("{}.{}", measure, where)));
      if (!table.has_peaks()) continue;
      const std::string of = table.is_step_time() ? "" : measure + ".";
      plots.push_back(memory_plot(shown, fmt::format("peak_memory.{}{}", of, where)));
    }
  }
  return plots;
}

std::vector<Plot> step_plots(const Results& results, const std::vector<std::size_t>& wanted) {
  std::vector<Plot> plots;
  std::vector<std::size_t> drawn;  // ids of all runs that have a picture
  for (const ResultTable& table : result_tables(results)) {
    const RunResult* fastest = nullptr;
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      for (const ResultTable::Row& row : table.rows) {
        const RunResult* run = row.cells[c];
        if (run == nullptr || run->picture.empty()) continue;
        drawn.push_back(run->id);
        if (std::ranges::find(wanted, run->id) != wanted.end()) plots.push_back(step_plot(*run));
        if (run->value && (fastest == nullptr || *run->value < *fastest->value)) fastest = run;
      }
    }
    if (wanted.empty() && fastest != nullptr) plots.push_back(step_plot(*fastest));
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

void write_plots(const std::string& folder, std::span<const Plot> plots) {
  fs::create_directories(folder);
  for (const Plot& plot : plots) write_aside(fmt::format("{}/{}.csv", folder, plot.name), plot.csv);
}

std::string draw_plots(const std::string& folder) {
  constexpr int no_such_program = 127, no_matplotlib = 77;
  for (const char* python : {"python3", "/usr/bin/python3"}) {
    const std::vector<std::string> command{python, with_data_folder("tools/baechi_plot.py"),
                                           folder};
    const external::ProcessResult result =
        external::run_process("/usr/bin/env", command, "", {.time = std::chrono::minutes(30)});
    if (result.exit_code == no_such_program || result.exit_code == no_matplotlib) continue;
    if (result.exit_code == 0 && result.signal == 0 && result.stopped == external::Stopped::no)
      return "";
    throw std::runtime_error(fmt::format("drawing {}: {}", folder, result.error_tail));
  }
  return "no pictures, for there is no python3 with matplotlib (Debian: apt install "
         "python3-matplotlib)";
}

}  // namespace baechi
