#include "placers/planners/stage_part.h"

#include <algorithm>
#include <cmath>

namespace baechi::planners {
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
