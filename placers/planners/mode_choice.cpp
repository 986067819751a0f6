#include "placers/planners/mode_choice.h"

#include <algorithm>
#include <limits>
#include <tuple>

namespace baechi::planners {
namespace {

constexpr double little = 1e-9;  // bytes that are negligible, as in the authors' program

/// A node that runs in another mode than its fastest.
struct Switch {
  std::size_t node = 0;  // position in the stage
  std::size_t mode = 0;
  double extra = 0.0;  // time
  double saved = 0.0;  // bytes
};

/// The switches that save memory, by time lost per byte; ties: the first node, the first mode.
std::vector<Switch> switches(const PlannerInput& input, const std::vector<BundleId>& nodes,
                             std::size_t degree, std::int64_t in_flight,
                             const std::vector<std::size_t>& fastest, const StageCost& cost) {
  std::vector<Switch> found;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    const auto& modes = input.nodes[nodes[i]].modes[degree];
    if (modes.size() < 2) continue;
    const std::size_t other = 1 - fastest[i];
    const double saved = modes[fastest[i]].memory(in_flight) - modes[other].memory(in_flight);
    if (saved <= little) continue;
    found.push_back({i, other,
                     cost.time(nodes[i], modes[other]) - cost.time(nodes[i], modes[fastest[i]]),
                     saved});
  }
  std::ranges::stable_sort(found, [](const Switch& a, const Switch& b) {
    return a.extra / a.saved < b.extra / b.saved;
  });
  return found;
}

void greedy(const std::vector<Switch>& found, double over, ChosenModes& chosen) {
  for (const Switch& s : found) {
    if (over < little) return;
    over -= s.saved;
    chosen.extra += s.extra;
    chosen.modes[s.node] = s.mode;
  }
}

/// A set of switches: its time and bytes, and the last switch on top of another set.
struct ModeSet {
  double extra = 0.0, saved = 0.0;
  std::size_t last = 0, rest = 0;  // of the switches; of the covers
};

/// Solves the covering problem exactly, by dynamic programming over the switches that keeps the
/// Pareto front of time and bytes.
void exact(const std::vector<Switch>& found, double over, ChosenModes& chosen) {
  std::vector<ModeSet> all{{}};
  std::vector<std::size_t> front{
      0};  // indices into `all`, by decreasing savings and decreasing time
  for (std::size_t i = 0; i < found.size(); ++i) {
    std::vector<std::size_t> merged = front;
    for (const std::size_t c : front) {
      if (all[c].saved > over - little) continue;
      merged.push_back(all.size());
      all.push_back({all[c].extra + found[i].extra, all[c].saved + found[i].saved, i, c});
    }
    std::ranges::stable_sort(merged, [&](std::size_t a, std::size_t b) {
      return std::tuple(-std::min(all[a].saved, over), all[a].extra) <
             std::tuple(-std::min(all[b].saved, over), all[b].extra);
    });
    front.clear();
    double least = std::numeric_limits<double>::infinity();
    for (const std::size_t c : merged) {
      if (all[c].extra >= least) continue;
      least = all[c].extra;
      front.push_back(c);
    }
  }
  // The front begins with the largest savings, which suffice because the leanest modes fit. The
  // first set is also the cheapest that suffices, because savings above `over` count as `over`.
  chosen.extra = all[front.front()].extra;
  for (std::size_t c = front.front(); c != 0; c = all[c].rest)
    chosen.modes[found[all[c].last].node] = found[all[c].last].mode;
}

}  // namespace

double StageCost::crossing_bytes(BundleId b, const PlannerMode& mode) const {
  double bytes = 0.0;
  for (std::size_t i = 0; i < input_.in[b].size(); ++i) {
    const PlannerEdge& edge = input_.edges[input_.in[b][i]];
    if (inside_[edge.from] == 0) bytes += edge.bytes + mode.in[i];
  }
  for (std::size_t i = 0; i < input_.out[b].size(); ++i) {
    const PlannerEdge& edge = input_.edges[input_.out[b][i]];
    if (inside_[edge.to] == 0) bytes += edge.bytes + mode.out[i];
  }
  return 2.0 * bytes;
}

double StageCost::time(BundleId b, const PlannerMode& mode) const {
  const double exchange =
      4.0 * (d_ - 1.0) * mode.weights / (d_ * static_cast<double>(input_.micro_batches));
  return mode.time / d_ + (crossing_bytes(b, mode) / d_ + exchange) / input_.bandwidth;
}

std::size_t fastest_mode(const std::vector<PlannerMode>& modes) {
  return static_cast<std::size_t>(std::ranges::min_element(modes, {}, &PlannerMode::time) -
                                  modes.begin());
}

ChosenModes choose_modes(const PlannerInput& input, const std::vector<BundleId>& nodes,
                         std::size_t degree, std::int64_t data_parallel, std::int64_t in_flight,
                         ModeChoice choice, const IdVector<BundleId, char>& inside) {
  ChosenModes chosen;
  double fast = 0.0, lean = 0.0;
  for (const BundleId b : nodes) {
    const auto& modes = input.nodes[b].modes[degree];
    chosen.modes.push_back(fastest_mode(modes));
    double least = std::numeric_limits<double>::infinity();
    for (const PlannerMode& mode : modes) least = std::min(least, mode.memory(in_flight));
    fast += modes[chosen.modes.back()].memory(in_flight);
    lean += least;
  }
  chosen.fits = lean - input.memory < little;
  const double over = fast - input.memory;
  if (!chosen.fits || over < little) return chosen;
  const StageCost cost(input, data_parallel, inside);
  const std::vector<Switch> found = switches(input, nodes, degree, in_flight, chosen.modes, cost);
  double missing = over;
  for (const Switch& s : found) {  // the last switch only in the fraction that is needed
    if (missing <= 0.0) break;
    chosen.least += s.extra * std::min(1.0, missing / s.saved);
    missing -= s.saved;
  }
  (choice == ModeChoice::greedy ? greedy : exact)(found, over, chosen);
  return chosen;
}

}  // namespace baechi::planners
