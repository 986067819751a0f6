#include "placers/learned/plan.h"

#include <algorithm>

#include "placers/learned/arithmetic.h"

namespace baechi::learned {
namespace {

constexpr std::size_t plan_width = device_feature_names.size();

}  // namespace

Plan::Plan(const Environment& environment)
    : environment_(environment),
      problem_(environment.problem()),
      devices_(problem_.cluster.num_devices()),
      limited_(problem_.engine.transfers != Transfers::parallel),
      limit_(memory_limits(problem_)) {
  if (devices_ > 1 && problem_.costs.uniform_transfers()) {
    for (const TensorId t : problem_.graph.tensors())
      transfer_.push_back(
          static_cast<double>(problem_.costs.transfer(t, DeviceId{0}, DeviceId{1}).count()));
  }
  clear();
}

void Plan::clear() {
  device_.assign(problem_.graph.num_ops(), DeviceId{0});
  end_.assign(problem_.graph.num_ops(), 0.0);
  there_.assign(problem_.graph.num_tensors() * devices_, -1.0);
  for (std::vector<double>* all : {&free_at_, &out_free_, &in_free_, &load_})
    all->assign(devices_, 0.0);
  count_.assign(devices_, 0);
  placed_ = 0;
  weights_.assign(devices_, Bytes{});
  working_.assign(devices_, Bytes{});
}

/// What `d` must have for all that is on it, and `block`.
Bytes Plan::needed(std::size_t block, DeviceId d) const {
  const UnitNeeds& needs = environment_.needs(block);
  return weights_[d] + needs.persistent + std::max(working_[d], needs.working);
}

std::span<const DeviceId> Plan::choices(std::size_t block) {
  choices_.clear();
  for (const DeviceId d : environment_.able(block))
    if (needed(block, d) <= limit_[d]) choices_.push_back(d);
  if (choices_.empty()) {
    const auto able = environment_.able(block);
    choices_.assign(able.begin(), able.end());
  }
  return choices_;
}

double Plan::transfer(TensorId t, DeviceId from, DeviceId to) const {
  if (problem_.graph.instant(t)) return 0.0;
  if (!transfer_.empty()) return transfer_[index(t)];
  return static_cast<double>(problem_.costs.transfer(t, from, to).count());
}

/// When the last input of `v` is on `d`. `sent(tensor, sender, arrival)` hears of each transfer.
template <class Sent>
double Plan::arrival(OpId v, DeviceId d, const Sent& sent) {
  double last = 0.0, channel = in_free_[index(d)];
  for (const EdgeId e : problem_.graph.in_edges(v)) {
    const Edge& edge = problem_.graph.edge(e);
    const DeviceId from = device_[edge.src];
    double at = end_[edge.src];
    if (from != d) {
      const double known = there(edge.tensor, d);
      if (known >= 0.0) {
        at = known;
      } else {
        if (limited_) at = std::max({at, out_free_[index(from)], channel});
        at += transfer(edge.tensor, from, d);
        if (limited_) channel = at;
        sent(edge.tensor, from, at);
      }
    }
    last = std::max(last, at);
  }
  return last;
}

std::span<const double> Plan::features(std::size_t block, OpId first,
                                       std::span<const DeviceId> devices) {
  features_.assign(devices.size() * plan_width, 0.0);
  const OpGraph& graph = problem_.graph;
  double bytes = 0.0, parents = 0.0, largest = -1.0;
  DeviceId largest_on{~0U};
  for (const EdgeId e : graph.in_edges(first)) {
    const double size = static_cast<double>(graph.tensor(graph.edge(e).tensor).size.count);
    bytes += size;
    parents += 1.0;
    if (size > largest) {
      largest = size;
      largest_on = device_[graph.edge(e).src];
    }
  }
  double start = 1e300, finish = 1e300, load = 1e300, fastest = 1e300;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const DeviceId d = devices[i];
    double* const f = features_.data() + i * plan_width;
    f[0] = std::max(free_at_[index(d)], arrival(first, d, [](TensorId, DeviceId, double) {}));
    f[1] = f[0] + environment_.time(block, d);
    f[3] = load_[index(d)];
    start = std::min(start, f[0]);
    finish = std::min(finish, f[1]);
    load = std::min(load, f[3]);
    fastest = std::min(fastest, environment_.time(block, d));
    for (const EdgeId e : graph.in_edges(first)) {
      const Edge& edge = graph.edge(e);
      if (device_[edge.src] != d && there(edge.tensor, d) < 0.0) continue;
      if (bytes > 0.0) f[4] += static_cast<double>(graph.tensor(edge.tensor).size.count) / bytes;
      f[5] += 1.0 / parents;
    }
  }
  const double scale = 1.0 / (0.05 * environment_.mean_load() + fastest);
  bool first_of_all = true;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const DeviceId d = devices[i];
    double* const f = features_.data() + i * plan_width;
    if (first_of_all && f[1] <= finish) {
      f[2] = 1.0;
      first_of_all = false;
    }
    f[0] = squashed((f[0] - start) * scale);
    f[1] = squashed((f[1] - finish) * scale);
    f[3] = squashed((f[3] - load) * scale);
    const Bytes left = limit_[d] - weights_[d] - working_[d];
    f[6] = limit_[d].count > 0
               ? std::clamp(static_cast<double>(left.count) / static_cast<double>(limit_[d].count),
                            0.0, 1.0)
               : 0.0;
    const double time = environment_.time(block, d);
    f[7] = time > 0.0 ? fastest / time : 1.0;
    f[8] = count_[index(d)] == 0 ? 1.0 : 0.0;
    f[9] = largest_on == d ? 1.0 : 0.0;
    f[10] = static_cast<double>(placed_) / static_cast<double>(environment_.num_blocks());
  }
  return features_;
}

void Plan::assign(std::size_t block, DeviceId d) {
  const UnitNeeds& needs = environment_.needs(block);
  weights_[d] += needs.persistent;
  working_[d] = std::max(working_[d], needs.working);
  load_[index(d)] += environment_.time(block, d);
  ++count_[index(d)];
  ++placed_;
}

void Plan::put(OpId v, DeviceId d) {
  const double ready = arrival(v, d, [&](TensorId t, DeviceId from, double at) {
    there(t, d) = at;
    out_free_[index(from)] = std::max(out_free_[index(from)], at);
    in_free_[index(d)] = std::max(in_free_[index(d)], at);
  });
  const double begin = std::max(ready, free_at_[index(d)]);
  device_[v] = d;
  end_[v] = begin + static_cast<double>(problem_.costs.compute(v, d).count());
  free_at_[index(d)] = end_[v];
}

}  // namespace baechi::learned
