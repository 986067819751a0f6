#include "scenarios/published/paper.h"
#include "scenarios/results/overview.h"

namespace baechi {
namespace {

/// How the number of a metric is printed, times `factor`.
struct NumberText {
  Metric metric;
  const char* format = "{:.3f}";
  double factor = 1.0;
};
constexpr NumberText number_texts[] = {{Metric::placed_ops, "{:.0f}"},
                                       {Metric::peak_memory, "{:.2f}"},
                                       {Metric::placing_time, "{:.3g}"},
                                       {Metric::processor_time, "{:.3g}"},
                                       {Metric::max_load, "{:.2f}"},
                                       {Metric::latency, "{:.2f}"},
                                       {Metric::time_per_sample, "{:.5g}"},
                                       {Metric::simulated_sample, "{:.5g}"},
                                       {Metric::throughput, "{:.4g}"},
                                       {Metric::fact, "{:.4g}"},
                                       {Metric::serving_instances, "{:.4g}"},
                                       {Metric::one_instance, "{:.1f}"},
                                       {Metric::serving_latency, "{:.1f}"},
                                       {Metric::serving_speed_up, "{:.2f}"},
                                       {Metric::flops_utilisation, "{:.1f} %", 100.0},
                                       {Metric::busy, "{:.1f} %", 100.0},
                                       {Metric::saved, "{:.1f} %", 100.0},
                                       {Metric::codesign_visited, "{:.3g} %"}};

std::string value_text(const PaperValue& value, Metric metric) {
  if (value.oom) return "OOM";
  if (value.unread) return "not readable";
  const auto own = std::ranges::find(number_texts, metric, &NumberText::metric);
  const NumberText as = own == std::end(number_texts) ? NumberText{metric} : *own;
  return fmt::format(fmt::runtime(as.format), as.factor * value.number) + (value.over ? "*" : "") +
         (value.unfinished ? "~" : "");
}

/// Steps that differ by less than this share between neighbouring calibrations are not told apart.
constexpr double steady = 0.005;

double repetition_spread(const PaperCell& cell) {
  return cell.least > 0.0 ? cell.most / cell.least - 1.0 : 0.0;
}

std::string deviation_text(const PaperCell& cell, Metric metric) {
  if (cell.calibrated) return "calibrated";
  if (cell.published && cell.ours && (cell.published->oom || cell.ours->oom))
    return cell.published->oom == cell.ours->oom ? "right" : "wrong";
  const auto deviation = cell.deviation();
  if (!deviation) return "";
  if (is_time_of_placing(metric) && *deviation < -0.5)
    return fmt::format("{:.3g} x faster", 1.0 / (*deviation + 1.0));
  return fmt::format("{:+.1f} %", *deviation * 100.0);
}

/// "; 0.199 to 0.205" where neighbouring calibrations give other steps.
std::string range_text(const PaperCell& cell, Metric metric) {
  if (repetition_spread(cell) <= steady) return "";
  return fmt::format("; {} to {}", value_text({.number = cell.least}, metric),
                     value_text({.number = cell.most}, metric));
}

/// "published", "ours", "deviation", each "" where there is none.
struct CellText {
  std::string published, ours, deviation;
};
CellText published_text(const PaperCell& cell, Metric metric) {
  return {cell.published ? value_text(*cell.published, metric) : "",
          cell.ours ? value_text(*cell.ours, metric) : "", deviation_text(cell, metric)};
}

/// "steps move by up to 3.1 % (GNMT, m-ETF) between neighbouring calibrations"; "" if they do not.
std::string spread_text(const PaperTable& table, const PaperTableResult& result) {
  double most = steady;
  std::string text;
  for (std::size_t r = 0; r < table.rows.size(); ++r) {
    for (std::size_t c = 0; c < table.columns.size(); ++c) {
      if (repetition_spread(result.cells[r][c]) <= most) continue;
      most = repetition_spread(result.cells[r][c]);
      text = fmt::format("steps move by up to {:.1f} % ({}, {}) between neighbouring calibrations",
                         most * 100.0, table.rows[r].label, table.columns[c].name);
    }
  }
  return text;
}

/// The table's summary, one line.
std::string summary(const PaperTable& table, const PaperTableResult& result) {
  std::string text;
  const auto add = [&](const std::string& part) { text += (text.empty() ? "" : "; ") + part; };
  if (result.deviations > 0)
    add(fmt::format("mean absolute deviation {:.1f} % over {} cells", result.mean_deviation * 100.0,
                    result.deviations));
  if (result.split_deviations > 0 && result.split_deviations < result.deviations)
    add(fmt::format("{:.1f} % over the {} whose placement uses several devices",
                    result.split_mean_deviation * 100.0, result.split_deviations));
  if (result.ranked_rows > 0)
    add(fmt::format("placers ranked as published in {} of {} rows, Kendall's tau {:.2f}",
                    result.right_rows, result.ranked_rows, result.kendall));
  if (result.oom_cells > 0)
    add(fmt::format("{} of {} out-of-memory cells right", result.right_oom, result.oom_cells));
  if (const std::string moves = spread_text(table, result); !moves.empty()) add(moves);
  return text;
}

std::string calibration_note(const Paper& paper, const PaperResult& result) {
  if (paper.calibrations.empty()) return "";
  std::string text =
      "Calibrated on one number per model, the step time of one GPU at the smaller batch; devices "
      "run at this speed of their roofline:";
  for (const PaperCalibration& c : paper.calibrations)
    text += fmt::format(" {} {:.3f} ({} s)", c.name, result.speeds.at(c.name),
                        to_us(c.step_time) / 1e6);
  return text + ". No other cell of any table was used.";
}

std::string title_of(const PaperTable& table) {
  return table.title + (table.unit_name.empty() ? "" : ", in " + table.unit_name);
}

/// As many columns side by side as fit into a line, then the next ones.
std::string columns_text(const PaperTable& table, const PaperTableResult& result) {
  constexpr std::size_t line_width = 100;
  std::string text;
  for (std::size_t c = 0; c < table.columns.size();) {
    Summary part;
    part.header.emplace_back();
    for (const PaperRow& row : table.rows) part.rows.push_back({row.label});
    for (; c < table.columns.size(); ++c) {
      Summary wider = part;
      wider.header.push_back(table.columns[c].name);
      for (std::size_t r = 0; r < table.rows.size(); ++r) {
        const CellText cell = published_text(result.cells[r][c], table.columns[c].metric);
        wider.rows[r].push_back(
            fmt::format("{:>6} {:>6} {:>10}", cell.published, cell.ours, cell.deviation));
      }
      if (table_lines(wider).front().size() > line_width && part.header.size() > 1) break;
      part = std::move(wider);
    }
    text += fmt::format("{}\n", fmt::join(table_lines(part), "\n"));
  }
  return text;
}

}  // namespace

std::string to_text(const Paper& paper, const PaperResult& result) {
  std::string text = fmt::format("{}\n{}\n\n", paper.title, paper.source);
  for (std::size_t t = 0; t < paper.tables.size(); ++t) {
    const PaperTable& table = paper.tables[t];
    text += fmt::format("{}: {}   (published, ours, deviation)\n", table.name, title_of(table));
    text +=
        columns_text(table, result.tables[t]) + "  " + summary(table, result.tables[t]) + "\n\n";
  }
  return text + calibration_note(paper, result) + "\n";
}

std::string to_markdown(const Paper& paper, const PaperResult& result) {
  std::string text = fmt::format(
      "# {}\n\nSource: {}. Each cell: published / ours (deviation). This page is written by "
      "`baechi paper {} --out DIR`.\n\n{}\n",
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
        const PaperCell& found = result.tables[t].cells[r][c];
        const CellText cell = published_text(found, table.columns[c].metric);
        const std::string range = range_text(found, table.columns[c].metric);
        if (cell.published.empty() && cell.ours.empty())
          text += "  |";
        else
          text += fmt::format(" {} / {}{} |", cell.published.empty() ? "-" : cell.published,
                              cell.ours.empty() ? "-" : cell.ours,
                              cell.deviation.empty() ? "" : " (" + cell.deviation + range + ")");
      }
    }
    text += "\n\n" + summary(table, result.tables[t]) +
            (summary(table, result.tables[t]).empty() ? "" : ".\n");
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
    if (value->in_file) return std::string("in file");
    return value->oom      ? "oom"
           : value->unread ? "not readable"
                           : fmt::format("{:.6g}", value->number);
  };
  const bool spreads =
      std::ranges::any_of(paper.tables, [](const auto& t) { return !t.neighbours.empty(); });
  std::string text = "table,row,column,published,ours,deviation";
  text += spreads ? ",least,most\n" : "\n";
  for (std::size_t t = 0; t < paper.tables.size(); ++t) {
    const PaperTable& table = paper.tables[t];
    for (std::size_t r = 0; r < table.rows.size(); ++r) {
      for (std::size_t c = 0; c < table.columns.size(); ++c) {
        const PaperCell& cell = result.tables[t].cells[r][c];
        const bool arithmetic = table.rows[r].arithmetic.has_value();
        if ((is_time_of_placing(table.columns[c].metric) && !arithmetic) ||
            (!cell.published && !cell.ours))
          continue;
        const auto deviation = cell.deviation();
        text += fmt::format("{},{},{},{},{},{}", table.name, quoted(table.rows[r].label),
                            quoted(table.columns[c].name), number(cell.published),
                            number(cell.ours), deviation ? fmt::format("{:.4f}", *deviation) : "");
        if (spreads)
          text += cell.least > 0.0 ? fmt::format(",{:.6g},{:.6g}", cell.least, cell.most) : ",,";
        text += '\n';
      }
    }
  }
  return text;
}

}  // namespace baechi
