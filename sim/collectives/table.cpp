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

/// Measured all_reduces by number of ranks. Between two sizes on a straight line of the logarithms;
/// below the least its time, above the largest in proportion. Between two numbers of ranks n on a
/// straight line over 2 (n - 1) / n; beyond them in proportion to that. Half of an all_reduce for
/// every other kind.
class TableModel final : public CollectiveModel {
 public:
  explicit TableModel(std::map<std::int64_t, FittedTime> times) : times_(std::move(times)) {}

  Duration time(const Collective& c, std::span<const DeviceId> devices,
                const Cluster& cluster) const override {
    const std::int64_t n = spread_of(c, devices, cluster).ranks;
    if (n < 2) return Duration{};
    const double all_reduce = of_ranks(n, static_cast<double>(c.bytes.count));
    const double parts = c.kind == CollectiveKind::all_reduce ? 1.0 : 0.5;
    return Duration{saturated(std::round(parts * all_reduce))};
  }

 private:
  static double moved(std::int64_t n) {
    return 2.0 * static_cast<double>(n - 1) / static_cast<double>(n);
  }

  double of_ranks(std::int64_t n, double bytes) const {
    const auto after = times_.lower_bound(n);
    if (after != times_.end() && after->first == n) return after->second(bytes);
    if (after == times_.begin()) return after->second(bytes) * moved(n) / moved(after->first);
    const auto before = std::prev(after);
    const double low = before->second(bytes);
    if (after == times_.end()) return low * moved(n) / moved(before->first);
    const double way =
        (moved(n) - moved(before->first)) / (moved(after->first) - moved(before->first));
    return low + way * (after->second(bytes) - low);
  }

  std::map<std::int64_t, FittedTime> times_;
};

std::map<std::int64_t, FittedTime> read_times(const CsvTable& csv) {
  const std::size_t ranks = csv.column("ranks"), bytes = csv.column("bytes"), us = csv.column("us");
  std::map<std::int64_t, FittedTime> times;
  for (std::size_t row = 0; row < csv.num_rows(); ++row) {
    const std::int64_t size = csv.whole(row, bytes, 1);
    times[csv.whole(row, ranks, 2)].table.emplace_back(static_cast<double>(size),
                                                       csv.number(row, us, 1e-3) * 1e3);
  }
  for (auto& [n, time] : times) {
    std::ranges::sort(time.table);
    const auto same = [](const auto& a, const auto& b) { return a.first == b.first; };
    if (const auto twice = std::ranges::adjacent_find(time.table, same); twice != time.table.end())
      throw InputError(fmt::format("{}: two times of {} ranks and {} bytes", csv.where(0, ranks), n,
                                   twice->first));
  }
  return times;
}

}  // namespace

std::shared_ptr<const CollectiveModel> make_table(Options& o) {
  const std::string path = o.path("file", "CSV with the columns ranks, bytes, us");
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
