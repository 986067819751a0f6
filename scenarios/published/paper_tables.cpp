#include <fmt/format.h>

#include <algorithm>

#include "scenarios/published/paper.h"

namespace baechi {
namespace {

std::string text_of(const PaperValue& value, Metric metric) {
  if (value.oom) return "OOM";
  switch (metric) {
    case Metric::placed_ops:
      return fmt::format("{:.0f}", value.number);
    case Metric::peak_memory:
      return fmt::format("{:.2f}", value.number);
    case Metric::placing_time:
      return fmt::format("{:.3g}", value.number);
    case Metric::max_load:
    case Metric::latency:
      return fmt::format("{:.2f}{}{}", value.number, value.over ? "*" : "",
                         value.unfinished ? "~" : "");
    case Metric::step_time:
    case Metric::slowdown:
      break;
  }
  return fmt::format("{:.3f}", value.number);
}

std::string deviation_text(const PaperCell& cell, Metric metric) {
  if (cell.calibrated) return "calibrated";
  if (cell.published && cell.ours && (cell.published->oom || cell.ours->oom))
    return cell.published->oom == cell.ours->oom ? "right" : "wrong";
  const auto deviation = cell.deviation();
  if (!deviation) return "";
  if (is_wall_clock(metric) && *deviation < -0.5)
    return fmt::format("{:.3g} x faster", 1.0 / (*deviation + 1.0));
  return fmt::format("{:+.1f} %", *deviation * 100.0);
}

/// "published", "ours", "deviation", each "" where there is none.
struct CellText {
  std::string published, ours, deviation;
};
CellText cell_text(const PaperCell& cell, Metric metric) {
  return {cell.published ? text_of(*cell.published, metric) : "",
          cell.ours ? text_of(*cell.ours, metric) : "", deviation_text(cell, metric)};
}

/// The table's summary, one line.
std::string summary(const PaperTableResult& result) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (result.deviations > 0)
    add(fmt::format("mean absolute deviation {:.1f} % over {} cells", result.mean_deviation * 100.0,
                    result.deviations));
  if (result.ranked_rows > 0)
    add(fmt::format("placers ranked as published in {} of {} rows, Kendall's tau {:.2f}",
                    result.right_rows, result.ranked_rows, result.kendall));
  if (result.oom_cells > 0)
    add(fmt::format("{} of {} out-of-memory cells right", result.right_oom, result.oom_cells));
  return text;
}

std::string calibration_note(const Paper& paper, const PaperResult& result) {
  if (paper.calibrations.empty()) return "";
  std::string text =
      "Calibrated on one number per model, the step time of one GPU at the smaller batch; devices "
      "run "
      "at this speed of their roofline:";
  for (const PaperCalibration& c : paper.calibrations)
    text += fmt::format(" {} {:.3f} ({} s)", c.name, result.speeds.at(c.name),
                        to_us(c.step_time) / 1e6);
  return text + ". No other cell of any table was used.";
}

std::string title_of(const PaperTable& table) {
  return table.title + (table.unit_name.empty() ? "" : ", in " + table.unit_name);
}

}  // namespace

std::string to_text(const Paper& paper, const PaperResult& result) {
  std::string text = fmt::format("{}\n{}\n\n", paper.title, paper.source);
  for (std::size_t t = 0; t < paper.tables.size(); ++t) {
    const PaperTable& table = paper.tables[t];
    text += fmt::format("{}: {}   (published, ours, deviation)\n", table.name, title_of(table));
    std::size_t width = 0;
    for (const PaperRow& row : table.rows) width = std::max(width, row.label.size());
    text += fmt::format("  {:{}}", "", width);
    for (const PaperColumn& c : table.columns) text += fmt::format("  {:^27}", c.name);
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      text += fmt::format("\n  {:{}}", table.rows[r].label, width);
      for (std::size_t c = 0; c < table.columns.size(); ++c) {
        const CellText cell = cell_text(result.tables[t].cells[r][c], table.columns[c].metric);
        text += fmt::format("  {:>6} {:>6} {:>13}", cell.published, cell.ours, cell.deviation);
      }
    }
    text += "\n  " + summary(result.tables[t]) + "\n\n";
  }
  return text + calibration_note(paper, result) + "\n";
}

std::string to_markdown(const Paper& paper, const PaperResult& result) {
  std::string text = fmt::format(
      "# {}\n\nSource: {}. Each cell: published / ours (deviation). This page is written by "
      "`baechi "
      "paper {} --out DIR`.\n\n{}\n",
      paper.title, paper.source, paper.name, calibration_note(paper, result));
  for (std::size_t t = 0; t < paper.tables.size(); ++t) {
    const PaperTable& table = paper.tables[t];
    text += fmt::format("\n## {}: {}\n\n|  |", table.name, title_of(table));
    for (const PaperColumn& c : table.columns) text += fmt::format(" {} |", c.name);
    text += "\n| --- |";
    for (std::size_t c = 0; c < table.columns.size(); ++c) text += " --- |";
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      text += fmt::format("\n| {} |", table.rows[r].label);
      for (std::size_t c = 0; c < table.columns.size(); ++c) {
        const CellText cell = cell_text(result.tables[t].cells[r][c], table.columns[c].metric);
        if (cell.published.empty() && cell.ours.empty())
          text += "  |";
        else
          text += fmt::format(" {} / {}{} |", cell.published.empty() ? "-" : cell.published,
                              cell.ours.empty() ? "-" : cell.ours,
                              cell.deviation.empty() ? "" : " (" + cell.deviation + ")");
      }
    }
    text += "\n\n" + summary(result.tables[t]) + (summary(result.tables[t]).empty() ? "" : ".\n");
    if (!table.notes.empty()) text += "\n" + table.notes + "\n";
  }
  return text;
}

std::string to_csv(const Paper& paper, const PaperResult& result) {
  const auto quoted = [](const std::string& cell) {
    return cell.find(',') == std::string::npos ? cell : "\"" + cell + "\"";
  };
  const auto number = [](const std::optional<PaperValue>& value) {
    if (!value) return std::string();
    return value->oom ? "oom" : fmt::format("{:.6g}", value->number);
  };
  std::string text = "table,row,column,published,ours,deviation\n";
  for (std::size_t t = 0; t < paper.tables.size(); ++t) {
    const PaperTable& table = paper.tables[t];
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      for (std::size_t c = 0; c < table.columns.size(); ++c) {
        const PaperCell& cell = result.tables[t].cells[r][c];
        const bool arithmetic = table.rows[r].arithmetic.has_value();
        if ((is_wall_clock(table.columns[c].metric) && !arithmetic) ||
            (!cell.published && !cell.ours))
          continue;
        const auto deviation = cell.deviation();
        text += fmt::format("{},{},{},{},{},{}\n", table.name, quoted(table.rows[r].label),
                            quoted(table.columns[c].name), number(cell.published),
                            number(cell.ours), deviation ? fmt::format("{:.4f}", *deviation) : "");
      }
    }
  }
  return text;
}

}  // namespace baechi
