#include <cmath>
#include <fstream>
#include <sstream>

#include "sim/cluster/calibration.h"
#include "sim/csv_table.h"
#include "sim/options.h"

namespace baechi {
namespace {

/// Times of one kind of collective by number of ranks n. Sizes are interpolated log-log
/// (FittedTime). Between two numbers of ranks, the time of the smallest size (latency) is linear in
/// n, and the rest is linear in (n - 1) / n, the bytes that a rank sends. Outside the measured
/// numbers of ranks, times are proportional to these bytes.
class RankTimes {
 public:
  std::map<std::int64_t, FittedTime> times{};

  double operator()(std::int64_t n, double bytes) const {
    const auto after = times.lower_bound(n);
    if (after != times.end() && after->first == n) return after->second(bytes);
    if (after == times.begin()) return after->second(bytes) * sent(n) / sent(after->first);
    const auto before = std::prev(after);
    const double low = before->second(bytes);
    if (after == times.end()) return low * sent(n) / sent(before->first);
    const double low_latency = before->second(0.0), high_latency = after->second(0.0);
    const double by_ranks = (static_cast<double>(n - before->first)) /
                            static_cast<double>(after->first - before->first);
    const double by_bytes =
        (sent(n) - sent(before->first)) / (sent(after->first) - sent(before->first));
    return std::lerp(low_latency, high_latency, by_ranks) +
           std::lerp(low - low_latency, after->second(bytes) - high_latency, by_bytes);
  }

 private:
  static double sent(std::int64_t n) { return static_cast<double>(n - 1) / static_cast<double>(n); }
};

/// Measured times by kind. A kind without times takes half of an all_reduce; broadcast uses
/// all_gather's times if there are any, since each rank receives as many bytes.
class TableModel final : public CollectiveModel {
 public:
  explicit TableModel(std::map<CollectiveKind, RankTimes> kinds) : kinds_(std::move(kinds)) {}

  Duration time(const Collective& c, std::span<const DeviceId> devices,
                const Cluster& cluster) const override {
    const std::int64_t n = spread_of(c, devices, cluster).ranks;
    if (n < 2) return Duration{};
    const auto bytes = static_cast<double>(c.bytes.count);
    auto own = kinds_.find(c.kind);
    if (own == kinds_.end() && c.kind == CollectiveKind::broadcast)
      own = kinds_.find(CollectiveKind::all_gather);
    if (own != kinds_.end()) return Duration{saturated(std::round(own->second(n, bytes)))};
    return Duration{saturated(std::round(0.5 * kinds_.at(CollectiveKind::all_reduce)(n, bytes)))};
  }

 private:
  std::map<CollectiveKind, RankTimes> kinds_;
};

std::map<CollectiveKind, RankTimes> read_times(const CsvTable& csv) {
  const std::size_t ranks = csv.column("ranks"), bytes = csv.column("bytes"), us = csv.column("us");
  const bool has_kinds = csv.has("kind");
  const std::size_t kinds = has_kinds ? csv.column("kind") : 0;
  std::map<CollectiveKind, RankTimes> times;
  for (std::size_t row = 0; row < csv.num_rows(); ++row) {
    const std::int64_t size = csv.whole(row, bytes, 1);
    const auto kind = has_kinds ? baechi::parse<CollectiveKind>(csv.text(row, kinds))
                                : CollectiveKind::all_reduce;
    if (!kind)
      throw InputError(fmt::format("{}: '{}' is no kind of collective ({})", csv.where(row, kinds),
                                   csv.text(row, kinds),
                                   fmt::join(all_words<CollectiveKind>(), ", ")));
    times[*kind].times[csv.whole(row, ranks, 2)].table.emplace_back(
        static_cast<double>(size), csv.number(row, us, 1e-3) * 1e3);
  }
  for (auto& [kind, of_kind] : times) {
    for (auto& [n, time] : of_kind.times) {
      std::ranges::sort(time.table);
      const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
      const auto twice = std::ranges::adjacent_find(time.table, same);
      if (twice != time.table.end())
        throw InputError(fmt::format("{}: two times of {} ranks and {} bytes", csv.where(0, ranks),
                                     n, twice->first));
    }
  }
  if (!times.empty() && !times.contains(CollectiveKind::all_reduce))
    throw InputError(fmt::format("{}: no all_reduce", csv.where(0, ranks)));
  return times;
}

/// Reads {KIND: {RANKS: [us, ...]}}; the times are of the sizes `first`, 2 `first`, 4 `first`, ...
std::map<CollectiveKind, RankTimes> read_kinds(const Options::Value& section, double first) {
  std::map<CollectiveKind, RankTimes> kinds;
  for (const auto& [word, of_ranks] : section.children) {
    const auto kind = baechi::parse<CollectiveKind>(word);
    if (!kind)
      throw InputError(
          fmt::format("{}table: times: {}", at(of_ranks.where), not_one_of<CollectiveKind>(word)));
    for (const auto& [ranks, list] : of_ranks.children) {
      const auto n = parse_number<std::int64_t>(ranks);
      if (!n || *n < 2 || list.children.empty())
        throw InputError(
            fmt::format("{}table: times: {}: not {{RANKS: [us, ...]}}", at(list.where), word));
      double bytes = first;
      for (const auto& [unused, item] : list.children) {
        const auto us = parse_number<double>(item.text);
        if (!us || !(*us > 0.0) || *us > 1e12)
          throw InputError(fmt::format("{}table: times: '{}' is not a time in us above 0",
                                       at(item.where), item.text));
        kinds[*kind].times[*n].table.emplace_back(bytes, *us * 1e3);
        bytes *= 2.0;
      }
    }
  }
  return kinds;
}

}  // namespace

std::shared_ptr<const CollectiveModel> make_table(Options& o) {
  const std::string path =
      o.path("file", "CSV with the columns ranks, bytes, us, and kind unless all are all_reduce");
  const Bytes first =
      o.get("first", Bytes{512}, "the least size of `times`; each next is twice as large");
  const Options::Value* times =
      o.raw("times", "instead of a file: {all_reduce: {8: [us, ...]}, all_gather: ...}");
  std::map<CollectiveKind, RankTimes> kinds;
  if (times != nullptr) {
    kinds = read_kinds(*times, static_cast<double>(first.count));
    if (!path.empty()) o.mistake("file", "does not go with 'times'");
    if (first.count < 1) o.mistake("first", "not above 0");
    if (!kinds.contains(CollectiveKind::all_reduce)) o.mistake("times", "it needs all_reduce");
  } else if (path.empty()) {
    o.mistake("file", "missing: the CSV with the columns ranks, bytes, us");
  } else if (std::ifstream file(path, std::ios::binary); !file) {
    o.mistake("file", fmt::format("'{}' cannot be read", path));
  } else {
    std::ostringstream text;
    text << file.rdbuf();
    kinds = read_times(CsvTable(std::move(text).str(), path));
    if (kinds.empty()) o.mistake("file", fmt::format("'{}' has no row", path));
  }
  return std::make_shared<const TableModel>(std::move(kinds));
}

}  // namespace baechi
