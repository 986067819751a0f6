#include <algorithm>
#include <cmath>
#include <fstream>
#include <map>
#include <sstream>

#include "sim/cluster/calibration.h"
#include "sim/cluster/collectives.h"
#include "sim/csv_table.h"
#include "sim/error.h"
#include "sim/options.h"
#include "sim/saturated.h"

namespace baechi {
namespace {

/// Measured collectives by kind and number of ranks. Between two sizes on a straight line of the
/// logarithms; below the least its time, above the largest in proportion. Between two numbers of
/// ranks n on a straight line over 2 (n - 1) / n; beyond them in proportion to that. Half of an
/// all_reduce for every kind that was not measured.
class TableModel final : public CollectiveModel {
 public:
  using Times = std::map<std::int64_t, FittedTime>;  // by ranks
  explicit TableModel(std::map<CollectiveKind, Times> times) : times_(std::move(times)) {}

  Duration time(const Collective& c, std::span<const DeviceId> devices,
                const Cluster& cluster) const override {
    const std::int64_t n = spread_of(c, devices, cluster).ranks;
    if (n < 2) return Duration{};
    const auto own = times_.find(c.kind);
    const bool measured = own != times_.end();
    const Times& times = measured ? own->second : times_.at(CollectiveKind::all_reduce);
    const double taken = of_ranks(times, n, static_cast<double>(c.bytes.count));
    return Duration{saturated(std::round((measured ? 1.0 : 0.5) * taken))};
  }

 private:
  static double moved(std::int64_t n) {
    return 2.0 * static_cast<double>(n - 1) / static_cast<double>(n);
  }

  static double of_ranks(const Times& times, std::int64_t n, double bytes) {
    const auto after = times.lower_bound(n);
    if (after != times.end() && after->first == n) return after->second(bytes);
    if (after == times.begin()) return after->second(bytes) * moved(n) / moved(after->first);
    const auto before = std::prev(after);
    const double low = before->second(bytes);
    if (after == times.end()) return low * moved(n) / moved(before->first);
    const double way =
        (moved(n) - moved(before->first)) / (moved(after->first) - moved(before->first));
    return low + way * (after->second(bytes) - low);
  }

  std::map<CollectiveKind, Times> times_;
};

std::map<CollectiveKind, TableModel::Times> read_times(const CsvTable& csv) {
  const std::size_t ranks = csv.column("ranks"), bytes = csv.column("bytes"), us = csv.column("us");
  const bool told = csv.has("kind");
  const std::size_t kinds = told ? csv.column("kind") : 0;
  std::map<CollectiveKind, TableModel::Times> times;
  for (std::size_t row = 0; row < csv.num_rows(); ++row) {
    const std::int64_t size = csv.whole(row, bytes, 1);
    const auto kind =
        told ? parse<CollectiveKind>(csv.text(row, kinds)) : CollectiveKind::all_reduce;
    if (!kind)
      throw InputError(fmt::format("{}: '{}' is no kind of collective ({})", csv.where(row, kinds),
                                   csv.text(row, kinds),
                                   fmt::join(all_words<CollectiveKind>(), ", ")));
    times[*kind][csv.whole(row, ranks, 2)].table.emplace_back(static_cast<double>(size),
                                                              csv.number(row, us, 1e-3) * 1e3);
  }
  for (auto& [kind, of_kind] : times) {
    for (auto& [n, time] : of_kind) {
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

}  // namespace

std::shared_ptr<const CollectiveModel> make_table(Options& o) {
  const std::string path =
      o.path("file", "CSV with the columns ranks, bytes, us, and kind if all_reduce is not alone");
  if (path.empty()) {
    o.mistake("file", "missing: the CSV with the columns ranks, bytes, us");
    return nullptr;
  }
  std::ifstream file(path, std::ios::binary);
  if (!file) {
    o.mistake("file", fmt::format("'{}' cannot be read", path));
    return nullptr;
  }
  std::ostringstream text;
  text << file.rdbuf();
  auto times = read_times(CsvTable(std::move(text).str(), path));
  if (times.empty()) o.mistake("file", fmt::format("'{}' has no row", path));
  return std::make_shared<const TableModel>(std::move(times));
}

}  // namespace baechi
