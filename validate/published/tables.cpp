// The score board as CSV and Markdown.
#include <fmt/format.h>

#include "scenarios/results/csv.h"
#include "validate/published/published.h"

namespace baechi::validate {
namespace {

std::string quoted_cell(std::string_view cell) {
  return csv_cell(std::string(cell), ColumnType::text);
}

std::string share(double error) {
  return fmt::format("{:.4f}", error);
}

std::string percents(double error) {
  return fmt::format("{:.1f} %", 100.0 * error);
}

}  // namespace

std::string blocks_csv(std::span<const PublishedScore> scores) {
  std::string text =
      "block,rows,skipped,mean,median,log_mean,bias,baseline,worst_row,worst_error,fitted,"
      "published\n";
  for (const PublishedScore& s : scores)
    text +=
        fmt::format("{},{},{},{},{},{},{},{},{},{},{},{}\n", s.block->name, s.errors.rows,
                    s.left.skipped.size(), share(s.errors.mean), share(s.errors.median),
                    s.errors.log_mean ? share(*s.errors.log_mean) : "", share(s.errors.bias),
                    s.baseline.rows > 0 ? share(s.baseline.mean) : "",
                    s.rows.empty() ? "" : quoted_cell(s.rows[s.worst].what), share(s.errors.worst),
                    quoted_cell(s.fitted), quoted_cell(s.block->published));
  return text;
}

std::string rows_csv(std::span<const PublishedScore> scores) {
  std::string text = "block,group,row,measured,simulated,error,baseline\n";
  for (const PublishedScore& score : scores) {
    const std::vector<PublishedRow> baseline = baseline_of(score.rows);
    auto next = baseline.begin();
    for (const PublishedRow& row : score.rows)
      text += fmt::format("{},{},{},{:.6g},{:.6g},{:.4f},{}\n", score.block->name,
                          quoted_cell(row.group), quoted_cell(row.what), row.measured,
                          row.simulated, row.error(),
                          row.work > 0.0 ? fmt::format("{:.6g}", (next++)->simulated) : "");
  }
  return text;
}

std::string to_markdown(std::span<const PublishedScore> scores) {
  std::string text =
      "| block | rows | skipped | mean | median | by size | worst | baseline | measured | fitted "
      "to | published simulators |\n"
      "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- | --- | --- |\n";
  for (const PublishedScore& s : scores)
    text += fmt::format(
        "| `{}` | {} | {} | {} | {} | {} | {:+.1f} % | {} | {} | {} | {} |\n", s.block->name,
        s.errors.rows, s.left.skipped.size(), percents(s.errors.mean), percents(s.errors.median),
        s.errors.log_mean ? percents(*s.errors.log_mean) : "-", 100.0 * s.errors.worst,
        s.baseline.rows > 0 ? percents(s.baseline.mean) : "-", s.block->summary, s.fitted,
        s.block->published.empty() ? "-" : s.block->published);
  return text;
}

}  // namespace baechi::validate
