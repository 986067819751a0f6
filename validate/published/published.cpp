#include "validate/published/published.h"

#include <algorithm>
#include <cmath>

#include "scenarios/results/csv.h"
#include "sim/error.h"
#include "sim/find_entry.h"
#include "validate/plan/quantiles.h"

namespace baechi::validate {

PublishedErrors errors_of(std::span<const PublishedRow> rows) {
  if (rows.empty()) return {};
  Samples absolute, with_sign;
  double sum = 0.0;
  for (const PublishedRow& row : rows) {
    with_sign.push_back(row.error());
    absolute.push_back(std::abs(row.error()));
    sum += absolute.back();
  }
  return {.rows = rows.size(),
          .mape = sum / static_cast<double>(rows.size()),
          .median = median(std::move(absolute)),
          .bias = median(std::move(with_sign))};
}

PublishedScore score_of(const PublishedBlock& block, std::vector<PublishedRow> rows) {
  PublishedScore score{.block = &block, .rows = std::move(rows)};
  for (const PublishedRow& row : score.rows)
    BAECHI_CHECK(row.measured > 0.0, "{}, {}: measured {}", block.name, row.what, row.measured);
  score.errors = errors_of(score.rows);
  const auto size = [](const PublishedRow& row) { return std::abs(row.error()); };
  score.worst =
      static_cast<std::size_t>(std::ranges::max_element(score.rows, {}, size) - score.rows.begin());
  std::vector<std::string> names;
  for (const PublishedRow& row : score.rows) {
    if (!row.group.empty() && std::ranges::find(names, row.group) == names.end())
      names.push_back(row.group);
  }
  for (const std::string& name : names) {
    std::vector<PublishedRow> members;
    std::ranges::copy_if(score.rows, std::back_inserter(members),
                         [&](const PublishedRow& row) { return row.group == name; });
    score.groups.emplace_back(name, errors_of(members));
  }
  return score;
}

std::vector<PublishedScore> score_published(const std::string& folder,
                                            std::span<const std::string> names) {
  std::vector<const PublishedBlock*> blocks;
  for (const std::string& name : names)
    blocks.push_back(&find_entry(published_blocks(), "block", name));
  if (names.empty())
    for (const PublishedBlock& block : published_blocks()) blocks.push_back(&block);
  std::vector<PublishedScore> scores;
  for (const PublishedBlock* block : blocks) {
    if (auto rows = block->compare(folder); rows && !rows->empty())
      scores.push_back(score_of(*block, std::move(*rows)));
  }
  if (scores.empty())
    throw InputError(
        fmt::format("{}: none of the files of {}; it should have vtrain/, dlexamples/ or papers/",
                    folder, fmt::join(entry_names(published_blocks()), ", ")));
  return scores;
}

std::string blocks_csv(std::span<const PublishedScore> scores) {
  std::string text = "block,rows,mape,median,bias,worst_row,worst_error,fitted,published\n";
  const auto quoted = [](std::string_view cell) {
    return csv_cell(std::string(cell), ColumnType::text);
  };
  for (const PublishedScore& score : scores) {
    const PublishedRow& worst = score.rows[score.worst];
    text += fmt::format("{},{},{:.4f},{:.4f},{:.4f},{},{:.4f},{},{}\n", score.block->name,
                        score.errors.rows, score.errors.mape, score.errors.median,
                        score.errors.bias, quoted(worst.what), worst.error(),
                        quoted(score.block->fitted), quoted(score.block->published));
  }
  return text;
}

std::string rows_csv(std::span<const PublishedScore> scores) {
  std::string text = "block,group,row,measured,simulated,error\n";
  for (const PublishedScore& score : scores)
    for (const PublishedRow& row : score.rows)
      text +=
          fmt::format("{},{},{},{:.6g},{:.6g},{:.4f}\n", score.block->name,
                      csv_cell(row.group, ColumnType::text), csv_cell(row.what, ColumnType::text),
                      row.measured, row.simulated, row.error());
  return text;
}

std::string to_markdown(std::span<const PublishedScore> scores) {
  std::string text =
      "| block | rows | mean | median | worst | measured | fitted to | published simulators |\n"
      "| --- | ---: | ---: | ---: | ---: | --- | --- | --- |\n";
  for (const PublishedScore& score : scores)
    text += fmt::format("| `{}` | {} | {:.1f} % | {:.1f} % | {:+.1f} % | {} | {} | {} |\n",
                        score.block->name, score.errors.rows, 100.0 * score.errors.mape,
                        100.0 * score.errors.median, 100.0 * score.rows[score.worst].error(),
                        score.block->summary, score.block->fitted,
                        score.block->published.empty() ? "-" : score.block->published);
  return text;
}

}  // namespace baechi::validate
