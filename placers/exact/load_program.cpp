#include <cmath>
#include <iterator>

#include "placers/exact/placement_program.h"

namespace baechi::exact {
namespace {

/// The heaviest bundles of `heavy`, as few as exceed `memory` together, and all bundles that are no
/// lighter than any of these: no device takes more than `most` of them.
struct Cover {
  std::vector<BundleId> bundles;
  std::size_t most = 0;
};

Cover cover_of(std::vector<BundleId> heavy, Bytes memory, const Bundles& bundles) {
  const auto weight = [&](BundleId b) { return bundles.weights(b); };
  std::ranges::stable_sort(heavy, std::greater{}, weight);
  Cover cover;
  Bytes sum{};
  for (std::size_t i = 0; sum <= memory; ++i) {
    cover.bundles.push_back(heavy[i]);
    sum += weight(heavy[i]);
  }
  cover.most = cover.bundles.size() - 1;
  const Bytes heaviest = weight(cover.bundles.front());
  for (const BundleId b : bundles.bundles())
    if (weight(b) >= heaviest && std::ranges::find(cover.bundles, b) == cover.bundles.end())
      cover.bundles.push_back(b);
  return cover;
}

class LoadWriter : ProgramWriter<LoadProgram> {
 public:
  LoadWriter(const Problem& problem, const Bundles& bundles,
             const std::vector<DeviceClass>& classes, Duration below, Duration step,
             LoadRules rules)
      : ProgramWriter(bundles, classes, below, step), problem_(problem), rules_(rules) {}

  LoadProgram write() {
    load_ = lp().add_column(0.0, scaled(most_));
    if (rules_.apart) {
      forward_load_ = lp().add_column(0.0, scaled(most_));
      later_load_ = lp().add_column(0.0, scaled(most_));
      at_most({{forward_load_, 1.0}, {later_load_, 1.0}, {load_, -1.0}}, 0.0);
    }
    add_assignment();
    for (std::size_t s = 0; s < classes_.size(); ++s) {
      for (const DeviceId d : classes_[s].devices) add_load(s, d);
      order_equal(s);
      limit_counts(s);
    }
    if (rules_.contiguous) {
      for (const DeviceId d : problem_.cluster.devices()) forbid_return(problem_.graph, d);
      part_distant();
    }
    minimise(load_);
    return std::move(program_);
  }

 private:
  bool fits(BundleId b, std::size_t cls) const {
    const auto time = bundles_.time(b, cls);
    return time && *time <= most_ && bundles_.weights(b) <= classes_[cls].memory;
  }

  void add_assignment() {
    std::vector<std::size_t> class_of(problem_.cluster.num_devices());
    for (std::size_t s = 0; s < classes_.size(); ++s)
      for (const DeviceId d : classes_[s].devices) class_of[index(d)] = s;
    for (const BundleId b : bundles_.bundles()) {
      Row row;
      program_.on.push_back({});
      for (const DeviceId d : problem_.cluster.devices()) {
        const std::uint32_t column = add_whole(fits(b, class_of[index(d)]) ? 1.0 : 0.0);
        program_.on[b].push_back({column});
        row.push_back({column, 1.0});
      }
      lp().add_row(1.0, row, 1.0);
    }
  }

  /// Work and transfers of `d` are at most the objective, its work alone below the bound (from
  /// which the solver makes cover cuts), its weights within its memory.
  void add_load(std::size_t cls, DeviceId d) {
    Row work, forward_work, later_work;
    for (const BundleId b : bundles_.bundles()) {
      if (!fits(b, cls)) continue;
      add(work, x(b, d), *bundles_.time(b, cls));
      const Duration later = bundles_.later_time(b, cls);
      add(forward_work, x(b, d), *bundles_.time(b, cls) - later);
      add(later_work, x(b, d), later);
    }
    at_most(work, scaled(most_));
    limit_weights(cls, d, [&](BundleId b) { return fits(b, cls); });
    if (!classes_[cls].core) add_transfers(d, work, forward_work, later_work);
    if (!rules_.apart) return limit(std::move(work), load_);
    limit(std::move(forward_work), forward_load_);
    limit(std::move(later_work), later_load_);
  }

  void add(Row& row, std::uint32_t column, Duration time) const {
    if (time > Duration{}) row.push_back({column, scaled(time)});
  }
  void limit(Row row, std::uint32_t column) {
    row.push_back({column, -1.0});
    at_most(row, 0.0);
  }

  void add_transfers(DeviceId d, Row& work, Row& forward_work, Row& later_work) {
    for (const Bundles::Net& net : bundles_.nets()) {
      const std::uint32_t cut = add_cut(net, d);
      add(work, cut, net.time);
      add(forward_work, cut, net.time - net.later_time);
      add(later_work, cut, net.later_time);
    }
  }

  void limit_counts(std::size_t cls) {
    std::vector<BundleId> longest;
    for (const BundleId b : bundles_.bundles())
      if (fits(b, cls)) longest.push_back(b);
    std::ranges::stable_sort(longest, std::greater{},
                             [&](BundleId b) { return *bundles_.time(b, cls); });
    // How many of the `n` longest bundles fit on one device, each taking the time of the shortest
    // of them.
    const auto together = [&](std::size_t n) {
      std::size_t count = 0;
      for (Duration sum{}; count < n; ++count) {
        sum += *bundles_.time(longest[n - 1 - count], cls);
        if (sum > most_) break;
      }
      return count;
    };
    std::size_t count = longest.empty() ? 0 : together(1);
    for (std::size_t n = 1; n <= longest.size(); ++n) {
      const std::size_t next = n < longest.size() ? together(n + 1) : n;
      // Only the largest n of a count tightens the program, and only where devices are nearly full.
      if (count < n && next > count && 10 * n >= 9 * count * classes_[cls].devices.size()) {
        for (const DeviceId d : classes_[cls].devices) {
          Row row;
          for (std::size_t i = 0; i < n; ++i) row.push_back({x(longest[i], d), 1.0});
          at_most(row, static_cast<double>(count));
        }
      }
      count = next;
    }
  }

  bool forward(OpId v) const { return problem_.graph.op(v).phase == Phase::forward; }

  /// Ops on one path that are too far apart to share a device.
  void part_distant() {
    constexpr std::size_t most_ops = 512;  // it looks at all pairs
    const OpGraph& graph = problem_.graph;
    if (graph.num_ops() > most_ops) return;
    find_paths();
    for (std::size_t s = 0; s < classes_.size(); ++s) {
      std::vector<std::vector<BundleId>> known;
      for (const OpId first : graph.ops()) {
        if (!forward(first)) continue;
        std::vector<OpId> apart{first};
        for (const OpId v : graph.ops())
          if (leads(apart.back(), v) && too_far(apart.back(), v, s)) apart.push_back(v);
        std::vector<BundleId> row;
        for (const OpId v : apart) row.push_back(bundles_.of(v));
        if (row.size() == 1 || std::ranges::find(known, row) != known.end()) continue;
        known.push_back(row);
        for (const DeviceId d : classes_[s].devices) {
          Row terms;
          for (const BundleId b : row) terms.push_back({x(b, d), 1.0});
          at_most(terms, 1.0);
        }
      }
    }
  }

  void find_paths() {
    const OpGraph& graph = problem_.graph;
    leads_.assign(graph.num_ops(), std::vector<bool>(graph.num_ops(), false));
    for (const OpId v : graph.ops()) {
      if (!forward(v)) continue;
      for (const OpId u : graph.predecessors(v)) {
        if (!forward(u)) continue;
        leads_[index(u)][index(v)] = true;
        for (const OpId w : graph.ops())
          if (leads(w, u)) leads_[index(w)][index(v)] = true;
      }
    }
  }
  bool leads(OpId from, OpId to) const { return leads_[index(from)][index(to)]; }

  /// Whether a contiguous part with `u` and `v`, and hence all ops between them, exceeds the bound:
  /// by their work and either the transfers of just these or the work of one more bundle.
  bool too_far(OpId u, OpId v, std::size_t cls) const {
    IdVector<BundleId, char> inside(bundles_.size(), 0);
    for (const OpId w : problem_.graph.ops())
      if (w == u || w == v || (leads(u, w) && leads(w, v))) inside[bundles_.of(w)] = 1;
    if (bundles_.of(u) == bundles_.of(v)) return false;
    Duration work{}, least_more = cannot_run, cut{};
    for (const BundleId b : bundles_.bundles()) {
      const Duration time = bundles_.time(b, cls).value_or(cannot_run);
      if (inside[b] != 0)
        work += time;
      else if (time > Duration{})
        least_more = std::min(least_more, time);
    }
    if (!classes_[cls].core) {
      for (const Bundles::Net& net : bundles_.nets()) {
        bool in = false, out = false;  // `out`: more than bundles of no time
        for (const BundleId pin : net.pins) {
          in = in || inside[pin] != 0;
          out = out ||
                (inside[pin] == 0 && bundles_.time(pin, cls).value_or(cannot_run) > Duration{});
        }
        if (in && out) cut += net.time;
      }
    }
    return work + std::min(cut, least_more) > most_;
  }

  const Problem& problem_;
  LoadRules rules_;
  std::uint32_t load_ = 0;  // the objective's column; of LoadRules::apart its two parts:
  std::uint32_t forward_load_ = 0, later_load_ = 0;
  std::vector<std::vector<bool>> leads_;  // [ops, ops]: a path of forward ops
};

}  // namespace

IdVector<BundleId, DeviceId> PlacementProgram::split(const std::vector<double>& solution) const {
  IdVector<BundleId, DeviceId> device;
  for (const auto& columns_of : on) {
    const auto best = std::ranges::max_element(columns_of, {}, [&](const auto& columns) {
      double sum = 0.0;
      for (const std::uint32_t column : columns) sum += solution[column];
      return sum;
    });
    device.push_back(static_cast<DeviceId>(best - columns_of.begin()));
  }
  return device;
}

Duration PlacementProgram::time(double objective) const {
  constexpr double tolerance = 1e-4;  // ten millionths of the largest value
  return Duration{static_cast<std::int64_t>(std::ceil((objective - extra - tolerance) / unit))};
}

bool PlacementProgram::forbid_overloads(const IdVector<BundleId, DeviceId>& split,
                                        const Bundles& bundles,
                                        const std::vector<DeviceClass>& classes) {
  bool any = false;
  for (const DeviceClass& cls : classes) {
    for (const DeviceId d : cls.devices) {
      std::vector<BundleId> here;
      Bytes sum{};
      for (const BundleId b : bundles.bundles()) {
        if (split[b] != d) continue;
        here.push_back(b);
        sum += bundles.weights(b);
      }
      if (sum <= cls.memory) continue;
      any = true;
      const Cover cover = cover_of(std::move(here), cls.memory, bundles);
      for (const DeviceId equal : cls.devices) {
        std::vector<solver::LinearProgram::Term> row;
        for (const BundleId b : cover.bundles)
          for (const std::uint32_t column : on[b][index(equal)]) row.push_back({column, 1.0});
        program.relaxation.add_row(-solver::LinearProgram::infinity, row,
                                   static_cast<double>(cover.most));
      }
    }
  }
  return any;
}

LoadProgram load_program(const Problem& problem, const Bundles& bundles,
                         const std::vector<DeviceClass>& classes, Duration below, Duration step,
                         LoadRules rules) {
  return LoadWriter(problem, bundles, classes, below, step, rules).write();
}

bool is_contiguous(const Problem& problem, const Placement& placement) {
  const OpGraph& graph = problem.graph;
  const auto forward = [&](OpId v) { return graph.op(v).phase == Phase::forward; };
  for (const DeviceId d : problem.cluster.devices()) {
    IdVector<OpId, char> left(graph.num_ops(), 0);  // a path from an op on `d` has left it
    for (const OpId v : graph.ops()) {
      if (!forward(v)) continue;
      const bool here = placement.device[v] == d;
      for (const OpId u : graph.predecessors(v))
        if (forward(u) && (left[u] != 0 || (placement.device[u] == d && !here))) left[v] = 1;
      if (here && left[v] != 0) return false;
    }
  }
  return true;
}

}  // namespace baechi::exact
