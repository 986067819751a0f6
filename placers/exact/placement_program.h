/// Integer programs of placements: their common parts, the one for max_load, and the one for
/// latency.
#pragma once

#include "placers/exact/bundles.h"
#include "placers/solver/linear_program.h"
#include "sim/objective/objective.h"

namespace baechi::exact {

/// A mixed integer program whose solutions are placements of bundles.
struct PlacementProgram {
  solver::MixedProgram program;
  /// Columns whose sum is 1 if the bundle is on the device, else 0. [num_bundles][num_devices]
  IdVector<BundleId, std::vector<std::vector<std::uint32_t>>> on;
  double unit = 1.0;   ///< value of the objective for one nanosecond
  double extra = 0.0;  ///< the part of the objective that is not time

  /// The placement that a solution represents. [num_bundles]
  IdVector<BundleId, DeviceId> split(const std::vector<double>& solution) const;
  /// A value of the objective as a time, rounded up after the solver's tolerance is taken off.
  Duration time(double objective) const;
  /// Forbids the bundles that `split` puts on devices whose memory they exceed, by exact sums of
  /// bytes. From any set of that many bundles as heavy, each device of the class takes one bundle
  /// less. False if all weights fit.
  bool forbid_overloads(const IdVector<BundleId, DeviceId>& split, const Bundles& bundles,
                        const std::vector<DeviceClass>& classes);
};

/// Writes a `Program`, which is a PlacementProgram, for values of at most `below` - `step`. Times
/// are scaled so that `below` is 1000.
template <class Program>
class ProgramWriter {
 protected:
  using Term = solver::LinearProgram::Term;
  using Row = std::vector<Term>;
  static constexpr double infinity = solver::LinearProgram::infinity;

  ProgramWriter(const Bundles& bundles, const std::vector<DeviceClass>& classes, Duration below,
                Duration step)
      : bundles_(bundles), classes_(classes), most_(below - step) {
    program_.unit = 1e3 / static_cast<double>(std::max<std::int64_t>(below.count(), 1));
  }

  solver::LinearProgram& lp() { return program_.program.relaxation; }
  double scaled(Duration time) const { return static_cast<double>(time.count()) * program_.unit; }
  std::uint32_t add_whole(double most) {
    const std::uint32_t column = lp().add_column(0.0, most);
    program_.program.whole.push_back(column);
    return column;
  }
  /// Constrains the sum of the row to at most `limit`.
  void at_most(const Row& row, double limit) {
    if (!row.empty()) lp().add_row(-infinity, row, limit);
  }
  void minimise(std::uint32_t column) {
    lp().objectives = {std::vector<double>(lp().num_columns(), 0.0)};
    lp().objectives[0][column] = 1.0;
  }

  /// Terms whose sum is `factor` if `b` is on `d`, else 0.
  Row on(BundleId b, DeviceId d, double factor) const {
    Row row;
    for (const std::uint32_t column : program_.on[b][index(d)]) row.push_back({column, factor});
    return row;
  }

  /// Weights of the bundles that `fits` accepts, on a device of the class, in whole grains of a
  /// millionth of the memory, rounded down. All placements that fit are kept. Forbidden placements
  /// exceed the row by a grain at least, which no solver overlooks. A sum of bytes within the
  /// solver's tolerance of the memory would not do: CBC drops such a solution and all near it.
  /// PlacementProgram::forbid_overloads forbids smaller excesses.
  template <class Fits>
  void limit_weights(std::size_t cls, DeviceId d, Fits fits) {
    constexpr std::int64_t grains = 1'000'000;
    Bytes all{};
    for (const BundleId b : bundles_.bundles()) all += bundles_.weights(b);
    const Bytes memory = classes_[cls].memory;
    if (all <= memory) return;
    const std::int64_t grain = std::max<std::int64_t>(1, memory.count / grains);
    const std::int64_t whole_grains = memory.count / grain;
    const auto limit = static_cast<double>(whole_grains);
    Row row;
    for (const BundleId b : bundles_.bundles()) {
      const std::int64_t weight = bundles_.weights(b).count / grain;
      if (weight == 0 || !fits(b)) continue;
      for (const Term& term : on(b, d, 1e3 * static_cast<double>(weight) / std::max(limit, 1.0)))
        row.push_back(term);
    }
    at_most(row, 1e3 * std::min(limit, 1.0));
  }

  /// The one column that is 1 if `b` is on `d`.
  std::uint32_t x(BundleId b, DeviceId d) const { return program_.on[b][index(d)].front(); }

  /// A column that is 1 at least if some pins of the net are on `d` and others are not.
  std::uint32_t add_cut(const Bundles::Net& net, DeviceId d) {
    const std::uint32_t cut = lp().add_column(0.0, 1.0);
    const std::uint32_t first = x(net.pins.front(), d);
    for (const BundleId pin : net.pins) {
      if (pin == net.pins.front()) continue;
      at_most({{first, 1.0}, {x(pin, d), -1.0}, {cut, -1.0}}, 0.0);
      at_most({{first, -1.0}, {x(pin, d), 1.0}, {cut, -1.0}}, 0.0);
    }
    return cut;
  }

  /// A column per forward op, 0 once a path has left `d`: then no path comes back.
  void forbid_return(const OpGraph& graph, DeviceId d) {
    const auto forward = [&](OpId v) { return graph.op(v).phase == Phase::forward; };
    IdVector<OpId, std::uint32_t> stays(graph.num_ops());
    for (const OpId v : graph.ops()) {
      if (!forward(v)) continue;
      stays[v] = lp().add_column(0.0, 1.0);
      const std::uint32_t here = x(bundles_.of(v), d);
      at_most({{here, 1.0}, {stays[v], -1.0}}, 0.0);
      for (const OpId u : graph.predecessors(v)) {
        if (!forward(u)) continue;
        at_most({{stays[v], 1.0}, {stays[u], -1.0}}, 0.0);
        if (bundles_.of(u) != bundles_.of(v))
          at_most({{stays[v], 1.0}, {here, -1.0}, {x(bundles_.of(u), d), 1.0}}, 1.0);
      }
    }
  }

  /// Equal devices: each begins (by bundle id) after the one before it. A column begun[b,
  /// device] is 1 if the device has a bundle up to b.
  void order_equal(std::size_t cls) {
    const std::vector<DeviceId>& devices = classes_[cls].devices;
    for (std::size_t i = 1; i < devices.size(); ++i) {
      std::optional<std::uint32_t> begun;  // on the device before, with the bundles before b
      for (const BundleId b : bundles_.bundles()) {
        Row row = on(b, devices[i], 1.0);
        if (begun) row.push_back({*begun, -1.0});
        at_most(row, 0.0);
        const std::uint32_t next = lp().add_column(0.0, 1.0);
        row = on(b, devices[i - 1], -1.0);
        row.push_back({next, 1.0});
        if (begun) row.push_back({*begun, -1.0});
        at_most(row, 0.0);
        begun = next;
      }
    }
  }

  const Bundles& bundles_;
  const std::vector<DeviceClass>& classes_;
  Duration most_;
  Program program_;
};

struct LoadRules {
  bool contiguous = false;  ///< a device's forward ops: no path leaves it and comes back
  bool apart = false;       ///< minimise the largest forward load plus the largest other load
};

/// Splits of `bundles` whose busiest device has a load of at most `below` - `step`. The objective
/// is that load (or, `apart`, the sum of the two largest), in thousandths of `below`.
///
/// A whole column x[bundle, device] in 0..1; y[net, accelerator], 1 if some but not all pins of the
/// net are there. If `contiguous`, z[op, device] for ops of Phase::forward is 0 once a path has
/// left the device, so that no path comes back. Rows that are not in the paper hold for every
/// wanted split and tighten the relaxation:
/// - a bundle too long or too heavy for a device is not there;
/// - of the n longest bundles a device takes at most the number that the shortest of them allow;
/// - of bundles on one path, each two with too much work between them, a device takes one;
/// - of equal devices, each begins (by bundle id) after the one before it.
/// Source: Tarnawski et al., NeurIPS 2020, integer program for throughput.
struct LoadProgram : PlacementProgram {};
LoadProgram load_program(const Problem& problem, const Bundles& bundles,
                         const std::vector<DeviceClass>& classes, Duration below, Duration step,
                         LoadRules rules);

/// Whether on each device no path between two ops of Phase::forward leaves the device. Paths go
/// through ops of Phase::forward.
bool is_contiguous(const Problem& problem, const Placement& placement);

/// Where an op may be: a class of cores, or one part of one accelerator.
struct Slot {
  DeviceId device{};       ///< of CPU cores the first: their number has no limit
  std::uint32_t part = 0;  ///< of an accelerator, whose parts run in this order
  std::size_t cls = 0;
  bool core = false;
};

struct Invocations {
  Placement placement;
  Parts part;
};

/// How the ops of an accelerator are cut into parts: at will, or as the objective `latency` does,
/// where a part ends only where a path leaves the accelerator and comes back.
enum class Cut : std::uint8_t { any, as_objective };

struct PartRules {
  std::size_t parts = 1;  ///< of each accelerator, at most
  Cut cut = Cut::any;
  /// Each part takes longer by a hundred-thousandth of `below`, so that parts of no time cannot
  /// wait for each other.
  bool strict = false;
};

/// Placements of `bundles` (of BundleRules::Order::data) where each accelerator runs at most
/// `rules.parts` parts in turn, with a latency of at most `below` - `step`. The objective is the
/// latency, in thousandths of `below`.
///
/// Columns: x[bundle, slot], whole; with several parts x[op, slot], because a bundle may be in
/// several parts of its device. lat[op], start[part], end[part]; in[tensor, part], out[tensor,
/// part], 1 if the part pays for it. z[op, part] is 0 once a path has left the part, so that no
/// path comes back. Rows that are not in the paper hold for every such placement and tighten the
/// relaxation:
/// - along a path ops and transfers take their times one after the other, parts or not;
/// - of equal accelerators, each begins (by bundle id) after the one before it.
/// With Cut::as_objective, back[op, part] is 1 where a path that has left the part may come back
/// from, and an op of a later part needs such a predecessor, or one in its own part.
/// Source: Tarnawski et al., NeurIPS 2020, integer program for latency.
struct LatencyProgram : PlacementProgram {
  std::vector<Slot> slots;
  IdVector<OpId, std::vector<std::uint32_t>> x;  ///< columns [num_ops][slots]

  Invocations invocations(const std::vector<double>& solution) const;
};
LatencyProgram latency_program(const Problem& problem, const Bundles& bundles,
                               const std::vector<DeviceClass>& classes, PartRules rules,
                               Duration below, Duration step);

}  // namespace baechi::exact
