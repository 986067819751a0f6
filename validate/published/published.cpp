#include "validate/published/published.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "sim/find_entry.h"
#include "sim/hash.h"
#include "traces/format/compressed_file.h"
#include "validate/plan/quantiles.h"
#include "validate/published/measured_files.h"

namespace baechi::validate {
namespace {

/// Each group and each doubling of the size is one mean.
std::optional<double> log_mean_of(std::span<const PublishedRow> rows) {
  std::map<std::pair<std::string, int>, std::pair<double, double>> parts;  // sum, rows
  for (const PublishedRow& row : rows) {
    if (!(row.size > 0.0)) continue;
    auto& [sum, n] = parts[{row.group, std::ilogb(row.size)}];
    sum += std::abs(row.error());
    n += 1.0;
  }
  if (parts.empty()) return std::nullopt;
  double total = 0.0;
  for (const auto& [where, part] : parts) total += part.first / part.second;
  return total / static_cast<double>(parts.size());
}

std::size_t worst_of(std::span<const PublishedRow> rows) {
  const auto size = [](const PublishedRow& row) { return std::abs(row.error()); };
  return static_cast<std::size_t>(std::ranges::max_element(rows, {}, size) - rows.begin());
}

}  // namespace

void Leftovers::throw_if_any() const {
  Mistakes mistakes;
  for (const Row& row : skipped) mistakes.add(row.why);
  mistakes.throw_if_any();
}

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
          .mean = sum / static_cast<double>(rows.size()),
          .median = median(std::move(absolute)),
          .bias = median(std::move(with_sign)),
          .worst = rows[worst_of(rows)].error(),
          .log_mean = log_mean_of(rows)};
}

std::vector<PublishedRow> baseline_of(std::span<const PublishedRow> rows) {
  std::map<std::string, Samples> rates;
  for (const PublishedRow& row : rows)
    if (row.work > 0.0) rates[row.alike].push_back(row.measured / row.work);
  std::vector<PublishedRow> baseline;
  for (const PublishedRow& row : rows) {
    if (!(row.work > 0.0)) continue;
    baseline.push_back(row);
    baseline.back().simulated = row.work * median(rates.at(row.alike));
  }
  return baseline;
}

PublishedScore score_of(const PublishedBlock& block, Comparison comparison) {
  PublishedScore score{.block = &block, .left = std::move(comparison.left)};
  for (PublishedRow& row : comparison.rows) {
    if (row.measured > 0.0 && std::isfinite(row.simulated))
      score.rows.push_back(std::move(row));
    else
      score.left.skipped.push_back({row.lines.empty() ? "" : row.lines.front(),
                                    fmt::format("{}{}: measured {:g}, simulated {:g}",
                                                row.lines.empty() ? "" : row.lines.front() + ": ",
                                                row.what, row.measured, row.simulated)});
  }
  score.errors = errors_of(score.rows);
  score.baseline = errors_of(baseline_of(score.rows));
  score.fitted = block.fitted;
  if (!score.rows.empty()) score.worst = worst_of(score.rows);
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

std::optional<std::uint64_t> checksum_of(const std::string& folder, std::string_view file) {
  const auto path = measured_path(folder, file);
  if (!path) return std::nullopt;
  Hash hash;
  hash.add(TextFile(*path).rest());
  return hash.value();
}

namespace {

/// The block's text, and how the files in the folder stand to those that were fitted.
std::string fitted_text(const PublishedBlock& block, const std::string& folder) {
  if (block.files.empty()) return std::string(block.fitted);
  std::vector<std::string_view> others;
  for (const FittedFile& file : block.files)
    if (checksum_of(folder, file.path) != file.checksum) others.push_back(file.path);
  if (others.empty()) return fmt::format("{}: these files", block.fitted);
  return fmt::format("{}; not to {} of this folder", block.fitted, fmt::join(others, ", "));
}

std::vector<Unasked> unasked_of(std::span<const PublishedScore> scores) {
  std::map<std::string, std::size_t> files;
  std::set<std::string> asked;
  for (const PublishedScore& score : scores) {
    for (const auto& [file, rows] : score.left.files) files[file] = rows;
    for (const PublishedRow& row : score.rows) asked.insert(row.lines.begin(), row.lines.end());
    for (const Leftovers::Row& row : score.left.skipped) asked.insert(row.line);
  }
  std::vector<Unasked> unasked;
  for (const auto& [file, rows] : files) {
    const auto of_file = static_cast<std::size_t>(std::ranges::count_if(
        asked, [&](const std::string& line) { return line.starts_with(file + ":"); }));
    if (of_file < rows) unasked.push_back({file, rows - of_file});
  }
  return unasked;
}

}  // namespace

ScoreBoard score_published(const std::string& folder, std::span<const std::string> names,
                           const Watch& watch) {
  std::vector<const PublishedBlock*> blocks;
  for (const std::string& name : names)
    blocks.push_back(&find_entry(published_blocks(), "block", name));
  if (names.empty())
    for (const PublishedBlock& block : published_blocks()) blocks.push_back(&block);
  ScoreBoard board;
  std::atomic<std::size_t> done = 0;
  const auto watching = begin_watch(watch, done, blocks.size());
  for (const PublishedBlock* block : blocks) {
    auto comparison = block->compare(folder);
    ++done;
    if (!comparison) continue;
    board.scores.push_back(score_of(*block, std::move(*comparison)));
    board.scores.back().fitted = fitted_text(*block, folder);
  }
  if (board.scores.empty())
    throw InputError(fmt::format(
        "{}: none of the files of {}; it should have vtrain/, dlexamples/, papers/ or measured/",
        folder, fmt::join(entry_names(published_blocks()), ", ")));
  if (names.empty()) board.unasked = unasked_of(board.scores);
  return board;
}

}  // namespace baechi::validate
