#include "placers/planners/stage_part.h"

#include <cmath>

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

StagePart::StagePart(const PlannerInput& input, ModeChoice choice)
    : input_(input),
      choice_(choice),
      inside_(input.nodes.size(), 0),
      least_work_(input.nodes.size(), no_time),
      sums_(input.degrees.size()) {
  for (const BundleId b : input.nodes.ids()) {
    fast_.push_back(std::vector<const PlannerMode*>(input.degrees.size(), nullptr));
    for (std::size_t t = 0; t < input.degrees.size(); ++t) {
      const auto& modes = input.nodes[b].modes[t];
      if (modes.empty()) continue;
      fast_[b][t] = &modes[fastest_mode(modes)];
      least_work_[b] =
          std::min(least_work_[b], fast_[b][t]->time * static_cast<double>(input.degrees[t]));
    }
  }
  in_position_.resize(input.edges.size());
  out_position_.resize(input.edges.size());
  for (const BundleId b : input.nodes.ids()) {
    for (std::size_t i = 0; i < input.in[b].size(); ++i) in_position_[input.in[b][i]] = i;
    for (std::size_t i = 0; i < input.out[b].size(); ++i) out_position_[input.out[b][i]] = i;
  }
}

void StagePart::change(BundleId b, double sign) {
  work_ += sign * least_work_[b];
  if (sign < 0.0) cross(b, sign);
  for (std::size_t t = 0; t < sums_.size(); ++t) {
    const PlannerMode* mode = fast(b, t);
    if (mode == nullptr) {
      sums_[t].unable += sign > 0.0 ? 1 : -1;
      continue;
    }
    sums_[t].time += sign * mode->time;
    sums_[t].weights += sign * mode->weights;
    sums_[t].per_batch += sign * mode->per_batch;
    sums_[t].stays += sign * mode->stays;
  }
  if (sign > 0.0) cross(b, sign);
}

/// Adds the cut edges of `b`, given that the other nodes are inside the stage, or subtracts them.
void StagePart::cross(BundleId b, double sign) {
  inside_[b] = 0;
  for (std::size_t t = 0; t < sums_.size(); ++t) {
    // The bytes of edge number i of a node in its fastest mode; 0 for a node without the degree.
    const auto bytes = [&](BundleId at, double edge, bool incoming, std::size_t i) {
      const PlannerMode* mode = fast(at, t);
      if (mode == nullptr) return 0.0;
      return 2.0 * (edge + (incoming ? mode->in : mode->out)[i]);
    };
    for (std::size_t i = 0; i < input_.in[b].size(); ++i) {
      const std::uint32_t e = input_.in[b][i];
      const PlannerEdge& edge = input_.edges[e];
      sums_[t].bytes +=
          sign * (inside_[edge.from] == 0 ? bytes(b, edge.bytes, true, i)
                                          : -bytes(edge.from, edge.bytes, false, out_position_[e]));
    }
    for (std::size_t i = 0; i < input_.out[b].size(); ++i) {
      const std::uint32_t e = input_.out[b][i];
      const PlannerEdge& edge = input_.edges[e];
      sums_[t].bytes +=
          sign * (inside_[edge.to] == 0 ? bytes(b, edge.bytes, false, i)
                                        : -bytes(edge.to, edge.bytes, true, in_position_[e]));
    }
  }
  inside_[b] = sign > 0.0 ? 1 : 0;
}

double StagePart::fast_time(std::size_t degree, std::int64_t data_parallel) const {
  const Sums& s = sums_[degree];
  const auto d = static_cast<double>(data_parallel);
  const double exchange =
      4.0 * (d - 1.0) * s.weights / (d * static_cast<double>(input_.micro_batches));
  return s.time / d + (s.bytes / d + exchange) / input_.bandwidth;
}

StagePart::Price StagePart::price(std::size_t degree, std::int64_t data_parallel,
                                  std::int64_t in_flight, double fast, double limit) {
  // Incremental sums have rounding errors: near the limit, choose_modes() computes them from
  // scratch.
  const Sums& s = sums_[degree];
  const double needed = s.per_batch * static_cast<double>(in_flight) + s.stays;
  if (needed < input_.memory * (1.0 - 1e-9) - 1.0) return {.time = fast};
  const auto [at, fresh] = chosen_.try_emplace({degree, data_parallel, in_flight});
  if (sorted_.empty()) {
    sorted_ = *taken_;
    std::ranges::sort(sorted_);
  }
  if (fresh)
    at->second = choose_modes(input_, sorted_, degree, data_parallel, in_flight, choice_, inside_);
  const ChosenModes& chosen = at->second;
  if (!chosen.fits) return {.time = no_time, .hopeless = true, .memory = true};
  return {.time = fast + chosen.extra, .hopeless = fast + chosen.least * (1.0 - 1e-9) >= limit};
}

}  // namespace baechi::planners
