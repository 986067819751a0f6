/// The score board: measurements that others published, and what the program says of each.
#pragma once
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace baechi::validate {

/// One measurement and the simulated value of the same thing, in one unit.
struct PublishedRow {
  std::string what;   ///< which row it is, for people: "4 GPUs, 1 MiB"
  std::string group;  ///< rows of a group are also scored together: "4 GPUs"; "" for none
  double measured = 0.0, simulated = 0.0;

  double error() const { return simulated / measured - 1.0; }
};

/// Reads its files in `folder`, laid out as vtrain/, dlexamples/, papers/, and simulates each row;
/// nothing if they are not there. Throws InputError where a file is wrong.
using CompareBlock = std::optional<std::vector<PublishedRow>> (*)(const std::string& folder);

/// A block of measurements. A new one takes one file with its CompareBlock and one row of the table
/// in registry.cpp.
struct PublishedBlock {
  std::string_view name;       ///< as in the JSON
  std::string_view summary;    ///< what was measured, on what
  std::string_view fitted;     ///< which rows the program's numbers were fitted to; "nothing"
  std::string_view published;  ///< what published simulators say of themselves; "" for nothing
  CompareBlock compare;
};
std::span<const PublishedBlock> published_blocks();

/// Absolute errors, relative to what was measured.
struct PublishedErrors {
  std::size_t rows = 0;
  double mape = 0.0;    ///< mean
  double median = 0.0;  ///< of the absolute errors
  double bias = 0.0;    ///< median of the signed errors
};
/// Without rows: all 0.
PublishedErrors errors_of(std::span<const PublishedRow> rows);

struct PublishedScore {
  const PublishedBlock* block = nullptr;
  std::vector<PublishedRow> rows{};
  PublishedErrors errors{};
  std::size_t worst = 0;  ///< position in `rows`: the largest absolute error, the first of equals
  /// By PublishedRow::group, in the order of their first rows; without the rows of no group.
  std::vector<std::pair<std::string, PublishedErrors>> groups{};
};
/// `rows` are not empty; what was measured is above 0.
PublishedScore score_of(const PublishedBlock& block, std::vector<PublishedRow> rows);

/// The scores of the blocks called `names` (all if empty) whose files `folder` has. Throws
/// InputError on an unknown name, or if the folder has the files of none of them.
std::vector<PublishedScore> score_published(const std::string& folder,
                                            std::span<const std::string> names);

/// block,rows,mape,median,bias,worst_row,worst_error,fitted,published
std::string blocks_csv(std::span<const PublishedScore> scores);
/// block,group,row,measured,simulated,error
std::string rows_csv(std::span<const PublishedScore> scores);
/// A page that needs nothing beside it: the table, and a chart of each block's rows.
std::string to_html(std::span<const PublishedScore> scores);
/// A table for a README.
std::string to_markdown(std::span<const PublishedScore> scores);

}  // namespace baechi::validate
