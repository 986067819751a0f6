#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>

#include "sim/error.h"
#include "sim/watch.h"
#include "validate/plan/quantiles.h"
#include "validate/published/collective_files.h"

namespace baechi::validate {
namespace {

constexpr std::size_t num_sizes = 21;  // 512 B to 512 MiB
constexpr std::array<std::int64_t, 3> rank_counts{2, 4, 8};
constexpr std::array<CollectiveKind, 4> ops{CollectiveKind::all_gather,
                                            CollectiveKind::reduce_scatter,
                                            CollectiveKind::all_reduce, CollectiveKind::all_to_all};

double size_of(std::size_t i) {
  return 512.0 * std::exp2(static_cast<double>(i));
}

/// Times in us of the sizes 512 B, 1 KiB, 2 KiB, ...
using Times = std::array<double, num_sizes>;

/// On straight lines of the logarithms between the medians of equal sizes; nothing below the least
/// size is 0.
Times at_sizes(const std::vector<const MeasuredCollective*>& rows) {
  std::map<double, Samples> by_size;
  for (const MeasuredCollective* row : rows)
    by_size[static_cast<double>(row->bytes.count)].push_back(row->us);
  std::map<double, double> medians;
  for (auto& [bytes, samples] : by_size) medians[bytes] = median(std::move(samples));
  Times times{};
  for (std::size_t i = 0; i < num_sizes; ++i) {
    const auto after = medians.lower_bound(size_of(i));
    if (after != medians.end() && after->first == size_of(i)) {
      times[i] = after->second;
    } else if (after == medians.begin()) {
      times[i] = 0.0;
    } else if (after == medians.end()) {
      times[i] = std::prev(after)->second * size_of(i) / std::prev(after)->first;
    } else {
      const auto before = std::prev(after);
      const double way =
          std::log(size_of(i) / before->first) / std::log(after->first / before->first);
      times[i] = before->second * std::pow(after->second / before->second, way);
    }
  }
  return times;
}

/// The tables of one kind of link: what was measured, and what follows of it.
class LinkTables {
 public:
  void set(CollectiveKind op, std::int64_t ranks, const Times& times) {
    measured_[{op, ranks}] = times;
  }
  bool empty() const { return measured_.empty(); }

  /// What was measured; else between fewer and more ranks of the same op, as between(); an
  /// all_to_all of more than two ranks as of_bytes_sent(); else the time of another op with as many
  /// ranks, times the ratio of the two ops with other numbers of ranks: on a straight line over
  /// log(ranks) between two of these, that of the nearest beyond. Without any all_reduce: a
  /// reduce_scatter and an all_gather.
  std::optional<Times> of(CollectiveKind op, std::int64_t ranks) const {
    if (const auto it = measured_.find({op, ranks}); it != measured_.end()) return it->second;
    if (auto times = between(op, ranks)) return as_other_ops(op, ranks, *times);
    if (auto times = of_bytes_sent(op, ranks)) return times;
    for (const CollectiveKind other : ops) {
      const auto there = measured_.find({other, ranks});
      if (other == op || there == measured_.end()) continue;
      if (const auto ratio = ratio_of(op, other, ranks)) {
        Times times = there->second;
        for (std::size_t i = 0; i < num_sizes; ++i) times[i] *= (*ratio)[i];
        return times;
      }
    }
    return std::nullopt;
  }

  std::map<std::pair<CollectiveKind, std::int64_t>, Times> measured_{};

 private:
  /// The time of the least size is on a straight line over the ranks n, what larger ones take more
  /// on one over the share (n - 1) / n that a rank sends.
  std::optional<Times> between(CollectiveKind op, std::int64_t ranks) const {
    const auto more = measured_.upper_bound({op, ranks}), own = measured_.lower_bound({op, ranks});
    if (more == measured_.end() || own == measured_.begin()) return std::nullopt;
    const auto fewer = std::prev(own);
    if (more->first.first != op || fewer->first.first != op) return std::nullopt;
    const auto n = static_cast<double>(ranks), least = static_cast<double>(fewer->first.second),
               most = static_cast<double>(more->first.second);
    const double of_ranks = (n - least) / (most - least),
                 of_shares = (1.0 / least - 1.0 / n) / (1.0 / least - 1.0 / most);
    Times times{};
    for (std::size_t i = 0; i < num_sizes; ++i)
      times[i] = std::lerp(fewer->second[0], more->second[0], of_ranks) +
                 std::lerp(fewer->second[i] - fewer->second[0], more->second[i] - more->second[0],
                           of_shares);
    return times;
  }
  /// `times` times what other ops with as many ranks took, over what they take by between():
  /// NCCL changes its protocol at about the same sizes. An all_to_all knows no protocols.
  Times as_other_ops(CollectiveKind op, std::int64_t ranks, Times times) const {
    std::vector<Times> ratios;
    for (const CollectiveKind other : ops) {
      const auto there = measured_.find({other, ranks});
      const bool alone = other == CollectiveKind::all_to_all || op == CollectiveKind::all_to_all;
      if (other == op || alone || there == measured_.end()) continue;
      const auto expected = between(other, ranks);
      if (!expected) continue;
      Times& ratio = ratios.emplace_back();
      for (std::size_t i = 0; i < num_sizes; ++i) ratio[i] = there->second[i] / (*expected)[i];
    }
    for (const Times& ratio : ratios)
      for (std::size_t i = 0; i < num_sizes; ++i)
        times[i] *= std::pow(ratio[i], 1.0 / static_cast<double>(ratios.size()));
    return times;
  }
  /// On a switch an all_to_all of 4 or 8 ranks takes as long for each byte that a rank sends; of 2
  /// ranks it does not. That they are on a switch, another op says that takes not much
  /// longer with 8 ranks than with 4.
  std::optional<Times> of_bytes_sent(CollectiveKind op, std::int64_t ranks) const {
    constexpr std::int64_t few = 4, many = 8;
    constexpr double not_much = 1.5;
    const auto there = measured_.find({op, ranks == few ? many : few});
    if (op != CollectiveKind::all_to_all || (ranks != few && ranks != many) ||
        there == measured_.end())
      return std::nullopt;
    const bool on_switch = std::ranges::any_of(ops, [&](CollectiveKind other) {
      const auto less = measured_.find({other, few}), more = measured_.find({other, many});
      return less != measured_.end() && more != measured_.end() &&
             more->second.back() < not_much * less->second.back();
    });
    if (!on_switch) return std::nullopt;
    const auto sent = [](std::int64_t n) {
      return static_cast<double>(n - 1) / static_cast<double>(n);
    };
    Times times = there->second;
    for (double& us : times) us *= sent(ranks) / sent(there->first.second);
    return times;
  }
  std::optional<Times> ratio_of(CollectiveKind op, CollectiveKind other, std::int64_t ranks) const {
    std::vector<std::pair<double, Times>> ratios;  // by log(ranks)
    for (const std::int64_t n : rank_counts) {
      const auto a = measured_.find({op, n}), b = measured_.find({other, n});
      if (a == measured_.end() || b == measured_.end()) continue;
      Times ratio{};
      for (std::size_t i = 0; i < num_sizes; ++i) ratio[i] = a->second[i] / b->second[i];
      ratios.emplace_back(std::log(static_cast<double>(n)), ratio);
    }
    if (ratios.empty()) return std::nullopt;
    const double at = std::log(static_cast<double>(ranks));
    if (at <= ratios.front().first) return ratios.front().second;
    if (at >= ratios.back().first) return ratios.back().second;
    const double way = (at - ratios[0].first) / (ratios[1].first - ratios[0].first);
    Times ratio{};
    for (std::size_t i = 0; i < num_sizes; ++i)
      ratio[i] = std::lerp(ratios[0].second[i], ratios[1].second[i], way);
    return ratio;
  }
};

using AllTables = std::map<std::string, LinkTables>;

/// `logs`: all-reduces in public logs, whose set-up is slower than that of the other rows with
/// small sizes. b200 has both, and what it says of the logs holds for h100.
AllTables tables_of(const std::vector<MeasuredCollective>& rows,
                    const std::vector<MeasuredCollective>& logs, const std::string& without = {}) {
  std::map<std::string, std::map<std::pair<CollectiveKind, std::int64_t>,
                                 std::vector<const MeasuredCollective*>>>
      groups;
  for (const MeasuredCollective& row : rows)
    if (row.key() != without) groups[row.kind][{row.op, row.ranks}].push_back(&row);
  AllTables tables;
  for (const auto& [kind, of_kind] : groups)
    for (const auto& [what, members] : of_kind)
      tables[kind].set(what.first, what.second, at_sizes(members));
  std::map<std::string, std::vector<const MeasuredCollective*>> logged;
  for (const MeasuredCollective& row : logs)
    if (row.ranks == 8) logged[row.kind].push_back(&row);
  constexpr auto all_reduce = CollectiveKind::all_reduce;
  const auto b200 = tables["b200_nccl"].of(all_reduce, 8);
  if (b200 && logged.contains("b200_nccl") && logged.contains("h100_nccl")) {
    Times times = at_sizes(logged.at("h100_nccl"));
    const Times slow = at_sizes(logged.at("b200_nccl"));
    const auto four = tables["h100_nccl"].of(all_reduce, 4);
    const auto gather4 = tables["h100_nccl"].of(CollectiveKind::all_gather, 4),
               gather8 = tables["h100_nccl"].of(CollectiveKind::all_gather, 8);
    for (std::size_t i = 0; i < num_sizes; ++i)
      times[i] = times[i] > 0.0 ? times[i] * (*b200)[i] / slow[i]
                                : (*gather8)[i] * (*four)[i] / (*gather4)[i];
    tables["h100_nccl"].set(all_reduce, 8, times);
  }
  if (logged.contains("mi300x_rccl")) {
    Times times = at_sizes(logged.at("mi300x_rccl"));
    times[0] = times[1];
    tables["mi300x_rccl"].set(all_reduce, 8, times);
  }
  return tables;
}

std::optional<Times> table_of_op(const LinkTables& tables, CollectiveKind op, std::int64_t ranks) {
  if (auto times = tables.of(op, ranks)) return times;
  if (op != CollectiveKind::all_reduce) return std::nullopt;
  auto times = tables.of(CollectiveKind::reduce_scatter, ranks);
  const auto gather = tables.of(CollectiveKind::all_gather, ranks);
  if (!times || !gather) return std::nullopt;
  for (std::size_t i = 0; i < num_sizes; ++i) (*times)[i] += (*gather)[i];
  return times;
}

/// Relative errors from 1 MiB of the rows of each system, op and number of ranks, when these rows
/// are left out.
std::map<std::string, Samples> left_out_errors(const std::vector<MeasuredCollective>& rows,
                                               const std::vector<MeasuredCollective>& logs) {
  std::set<std::string> keys;
  for (const MeasuredCollective& row : rows) keys.insert(row.key());
  std::map<std::string, Samples> errors;
  for (const std::string& key : keys) {
    AllTables tables = tables_of(rows, logs, key);
    for (const MeasuredCollective& row : rows) {
      if (row.key() != key || row.bytes.count < std::int64_t{1} << 20) continue;
      const auto times = table_of_op(tables[row.kind], row.op, row.ranks);
      const auto i = static_cast<std::size_t>(
          std::lround(std::log2(static_cast<double>(row.bytes.count) / 512.0)));
      if (times && i < num_sizes) errors[row.kind].push_back(std::abs((*times)[i] / row.us - 1.0));
    }
  }
  return errors;
}

std::string times_yaml(const Times& times) {
  std::string text;
  for (const double us : times) text += fmt::format("{}{:.3g}", text.empty() ? "" : ", ", us);
  return "[" + text + "]";
}

std::string kind_yaml_of(const std::string& kind, const LinkTables& tables, std::size_t rows,
                         const Samples& errors) {
  std::string text = fmt::format("  {}:\n    {{model: table, first: 512 B, times: {{", kind);
  std::vector<std::string> derived;
  bool first = true;
  for (const CollectiveKind op : ops) {
    std::string lines;
    for (const std::int64_t ranks : rank_counts) {
      const auto times = table_of_op(tables, op, ranks);
      if (!times) continue;
      lines +=
          fmt::format("{}{}: {}", lines.empty() ? "" : ",\n         ", ranks, times_yaml(*times));
      if (!tables.measured_.contains({op, ranks}))
        derived.push_back(fmt::format("{} {}", to_text(op), ranks));
    }
    if (lines.empty()) continue;
    text += fmt::format("{}\n       {}: {{\n         {}}}", first ? "" : ",", to_text(op), lines);
    first = false;
  }
  double mean = 0.0;
  for (const double error : errors) mean += error / static_cast<double>(errors.size());
  const std::string error =
      errors.empty()
          ? ""
          : fmt::format(", error from 1 MiB on an op and ranks left out {:.1f} %, median {:.1f} %",
                        100.0 * mean, 100.0 * median(Samples(errors)));
  const std::string also =
      derived.empty() ? "" : fmt::format("; {} follow from the others", fmt::join(derived, ", "));
  return text + fmt::format("}},\n     fitted: \"{} rows{}{}\",\n     source: \"{}\"}}\n", rows,
                            error, also,
                            kind == "mi300x_rccl" ? "RCCL, public log of Azure ND MI300X v5"
                                                  : "NCCL's tests: AIConfigurator's measurements; "
                                                    "all_reduce with NVLS where NCCL chooses it");
}

}  // namespace

std::string fit_collective_tables(const std::string& folder, const Watch& /*watch*/) {
  Leftovers left;
  const auto rows = measured_collectives(folder, left);
  if (rows.empty())
    throw InputError(fmt::format("{}: no measured/aiconfigurator/nccl.csv", folder));
  const auto logs = public_all_reduces(folder, left);
  const auto errors = left_out_errors(rows, logs);
  std::string text;
  for (const auto& [kind, tables] : tables_of(rows, logs)) {
    if (tables.empty()) continue;
    std::size_t count = 0;
    for (const auto* of : {&rows, &logs})
      for (const MeasuredCollective& row : *of) count += row.kind == kind ? 1U : 0U;
    const auto known = errors.find(kind);
    text += kind_yaml_of(kind, tables, count, known == errors.end() ? Samples{} : known->second);
  }
  return text;
}

}  // namespace baechi::validate
