/// The score board: measurements that others published, and what the program says of each.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/watch.h"
#include "validate/published/comparison.h"

namespace baechi::validate {

/// Reads its files in `folder`, laid out as vtrain/, dlexamples/, papers/, measured/, and simulates
/// each row; nothing if they are not there. A row that cannot be read, or asked, costs itself.
/// Throws InputError where a file is no table, or lacks a column.
using CompareBlock = std::optional<Comparison>(const std::string& folder);

/// A file whose rows the program's numbers were fitted to.
struct FittedFile {
  std::string_view path;       ///< below the folder
  std::uint64_t checksum = 0;  ///< of the file as it was then: checksum_of()
};

/// A block of measurements. A new one takes one file with its CompareBlock and one row of the table
/// in registry.cpp.
struct PublishedBlock {
  std::string_view name;       ///< as in the JSON
  std::string_view summary;    ///< what was measured, on what
  std::string_view fitted;     ///< which numbers were fitted to which rows; "nothing"
  std::string_view baseline;   ///< the rate that rows alike share: "one MFU per machine and format"
  std::string_view published;  ///< what published simulators say of themselves; "" for nothing
  CompareBlock* compare;
  std::span<const FittedFile> files{};  ///< fitted to
};
std::span<const PublishedBlock> published_blocks();

/// A hash of the file's bytes; nothing if it is not there.
std::optional<std::uint64_t> checksum_of(const std::string& folder, std::string_view file);

/// Absolute errors, relative to what was measured.
struct PublishedErrors {
  std::size_t rows = 0;
  double mean = 0.0;
  double median = 0.0;  ///< of the absolute errors
  double bias = 0.0;    ///< median of the signed errors
  double worst = 0.0;   ///< with its sign
  /// The mean where each doubling of `size` counts alike in each group, however many rows it has;
  /// nothing where no sizes are swept.
  std::optional<double> log_mean{};
};
/// Without rows: all 0.
PublishedErrors errors_of(std::span<const PublishedRow> rows);

/// What the stupid baseline says of the rows that have one: work x the median of measured / work
/// among the rows alike. It knows the rows that it predicts.
std::vector<PublishedRow> baseline_of(std::span<const PublishedRow> rows);

struct PublishedScore {
  const PublishedBlock* block = nullptr;
  std::vector<PublishedRow> rows{};
  Leftovers left{};
  PublishedErrors errors{};
  PublishedErrors baseline{};
  std::string fitted{};   ///< the block's, and whether that was to these files
  std::size_t worst = 0;  ///< position in `rows`: the largest absolute error, the first of equals
  /// By PublishedRow::group, in the order of their first rows; without the rows of no group.
  std::vector<std::pair<std::string, PublishedErrors>> groups{};
};
/// A row whose measured value is not above 0 is skipped.
PublishedScore score_of(const PublishedBlock& block, Comparison comparison);

/// Rows of a file that no block scored or skipped.
struct Unasked {
  std::string file;
  std::size_t rows = 0;
};

struct ScoreBoard {
  std::vector<PublishedScore> scores;
  std::vector<Unasked> unasked{};  ///< with all blocks only, by file
};
/// The scores of the blocks called `names` (all if empty) whose files `folder` has. `watch` is told
/// of the blocks. Throws InputError on an unknown name, or if the folder has the files of none of
/// them.
ScoreBoard score_published(const std::string& folder, std::span<const std::string> names,
                           const Watch& watch = {});

/// block,rows,skipped,mean,median,log_mean,bias,baseline,worst_row,worst_error,fitted,published
std::string blocks_csv(std::span<const PublishedScore> scores);
/// block,group,row,measured,simulated,error,baseline
std::string rows_csv(std::span<const PublishedScore> scores);
/// A page that needs nothing beside it: the table, and charts of each block's rows.
std::string to_html(const ScoreBoard& board);
/// A table for a README.
std::string to_markdown(std::span<const PublishedScore> scores);

}  // namespace baechi::validate
