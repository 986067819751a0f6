#include "placers/learned/plan.h"

#include <algorithm>
#include <functional>

#include "placers/learned/arithmetic.h"

namespace baechi::learned {
namespace {

constexpr std::size_t plan_width = device_feature_names.size();

}  // namespace

Plan::Plan(const Environment& environment)
    : environment_(&environment),
      problem_(&environment.problem()),
      devices_(problem_->cluster.num_devices()),
      channels_(problem_->engine.transfers, devices_),
      limit_(memory_limits(*problem_)) {
  clear();
}

void Plan::clear() {
  const OpGraph& graph = problem_->graph;
  device_.assign(graph.num_ops(), nowhere);
  end_.assign(graph.num_ops(), 0.0);
  missing_.assign(graph.num_ops(), 0U);
  ready_.clear();
  for (const OpId v : graph.ops()) {
    missing_[v] = static_cast<std::uint32_t>(graph.in_edges(v).size());
    if (missing_[v] == 0) ready_.push_back({0.0, v});
  }
  std::ranges::make_heap(ready_, std::greater{});
  there_.assign(graph.num_tensors() * devices_, -1.0);
  free_at_.assign(devices_, 0.0);
  channel_free_.assign(channels_.num_channels(), 0.0);
  load_.assign(devices_, 0.0);
  count_.assign(devices_, 0);
  placed_ = 0;
  now_ = last_ = 0.0;
  weights_.assign(devices_, Bytes{});
  working_.assign(devices_, Bytes{});
}

std::optional<OpId> Plan::next() {
  if (ready_.empty()) return {};
  std::ranges::pop_heap(ready_, std::greater{});
  const Ready first = ready_.back();
  ready_.pop_back();
  now_ = first.at;
  find_inputs(first.op);
  return first.op;
}

/// What `d` must have for all that is on it, and `block`.
Bytes Plan::needed(std::size_t block, DeviceId d) const {
  const UnitNeeds& needs = environment_->needs(block);
  return weights_[d] + needs.persistent + std::max(working_[d], needs.working);
}

std::span<const DeviceId> Plan::choices(std::size_t block, DeviceId also) {
  choices_.clear();
  const auto gather = [&](const auto& wanted) {
    bool empty_seen = false;
    for (const DeviceId d : environment_->able(block)) {
      const bool repeated = environment_->interchangeable() && empty_seen && empty(d);
      if (d != also && (repeated || !wanted(d))) continue;
      empty_seen = empty_seen || empty(d);
      choices_.push_back(d);
    }
  };
  gather([&](DeviceId d) { return needed(block, d) <= limit_[d]; });
  if (choices_.empty()) gather([](DeviceId) { return true; });
  return choices_;
}

/// Ties: the lower edge id.
void Plan::find_inputs(OpId v) {
  const auto edges = problem_->graph.in_edges(v);
  inputs_.assign(edges.begin(), edges.end());
  const auto end = [&](EdgeId e) { return end_[problem_->graph.edge(e).src]; };
  std::ranges::sort(inputs_,
                    [&](EdgeId a, EdgeId b) { return end(a) != end(b) ? end(a) < end(b) : a < b; });
}

/// When the last of the inputs is on `d`. `sent(tensor, sender, arrival)` hears of each transfer.
template <class Sent>
double Plan::arrival(DeviceId d, const Sent& sent) {
  double last = now_;
  const bool limited = channels_.limited();
  double receiving = limited ? channel_free_[channels_.receiving(d)] : 0.0;
  for (const EdgeId e : inputs_) {
    const Edge& edge = problem_->graph.edge(e);
    const DeviceId from = device_[edge.src];
    if (from == d) continue;
    double at = there(edge.tensor, d);
    if (at < 0.0) {
      at = end_[edge.src];
      if (limited) at = std::max({at, channel_free_[channels_.sending(from)], receiving});
      at += environment_->transfer(edge.tensor, from, d);
      receiving = at;
      sent(edge.tensor, from, at);
    }
    last = std::max(last, at);
  }
  return last;
}

/// [devices] Into nearby_: for each reader of what `first` writes, its other inputs that are
/// placed already, in bytes.
void Plan::count_readers_parents(OpId first) {
  const OpGraph& graph = problem_->graph;
  nearby_.assign(devices_, 0.0);
  for (const EdgeId out : graph.out_edges(first))
    for (const EdgeId in : graph.in_edges(graph.edge(out).dst)) {
      const Edge& edge = graph.edge(in);
      if (device_[edge.src] == nowhere) continue;
      nearby_[index(device_[edge.src])] +=
          static_cast<double>(graph.tensor(edge.tensor).size.count);
    }
  double sum = 0.0;
  for (const double bytes : nearby_) sum += bytes;
  if (sum > 0.0)
    for (double& bytes : nearby_) bytes /= sum;
}

std::span<const double> Plan::features(std::size_t block, OpId first,
                                       std::span<const DeviceId> devices) {
  features_.assign(devices.size() * plan_width, 0.0);
  const OpGraph& graph = problem_->graph;
  double bytes = 0.0, parents = 0.0, largest = -1.0;
  DeviceId largest_on = nowhere;
  for (const EdgeId e : inputs_) {
    const double size = static_cast<double>(graph.tensor(graph.edge(e).tensor).size.count);
    bytes += size;
    parents += 1.0;
    if (size > largest) {
      largest = size;
      largest_on = device_[graph.edge(e).src];
    }
  }
  count_readers_parents(first);
  double start = 1e300, finish = 1e300, load = 1e300, fastest = 1e300;
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const DeviceId d = devices[i];
    double* const f = features_.data() + i * plan_width;
    double moving = 0.0;
    f[0] = std::max(free_at_[index(d)], arrival(d, [&](TensorId t, DeviceId from, double) {
                      moving += environment_->transfer(t, from, d);
                    }));
    f[1] = f[0] + environment_->time(block, d);
    f[3] = load_[index(d)];
    f[14] = moving;
    start = std::min(start, f[0]);
    finish = std::min(finish, f[1]);
    load = std::min(load, f[3]);
    fastest = std::min(fastest, environment_->time(block, d));
    for (const EdgeId e : inputs_) {
      const Edge& edge = graph.edge(e);
      if (device_[edge.src] != d && there(edge.tensor, d) < 0.0) continue;
      if (bytes > 0.0) f[4] += static_cast<double>(graph.tensor(edge.tensor).size.count) / bytes;
      f[5] += 1.0 / parents;
    }
  }
  const double scale = 1.0 / (0.05 * environment_->mean_load() + fastest);
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const DeviceId d = devices[i];
    double* const f = features_.data() + i * plan_width;
    f[2] = f[1] <= finish ? 1.0 : 0.0;
    f[0] = squashed((f[0] - start) * scale);
    f[1] = squashed((f[1] - finish) * scale);
    f[3] = squashed((f[3] - load) * scale);
    const Bytes left = limit_[d] - weights_[d] - working_[d];
    f[6] = limit_[d].count > 0
               ? std::clamp(static_cast<double>(left.count) / static_cast<double>(limit_[d].count),
                            0.0, 1.0)
               : 0.0;
    const double time = environment_->time(block, d);
    f[7] = time > 0.0 ? fastest / time : 1.0;
    f[8] = count_[index(d)] == 0 ? 1.0 : 0.0;
    f[9] = largest_on == d ? 1.0 : 0.0;
    f[10] = static_cast<double>(placed_) / static_cast<double>(environment_->num_blocks());
    f[11] = squashed(std::max(free_at_[index(d)] - now_, 0.0) * scale);
    f[12] = now_ > 0.0 ? std::min(load_[index(d)] / now_, 1.0) : 1.0;
    if (channels_.limited()) {
      const double channel =
          std::max(channel_free_[channels_.sending(d)], channel_free_[channels_.receiving(d)]);
      f[13] = squashed(std::max(channel - now_, 0.0) * scale);
    }
    f[14] = f[14] > 0.0 ? f[14] / (f[14] + std::max(time, 1.0)) : 0.0;
    f[15] = nearby_[index(d)];
    f[16] = squashed(static_cast<double>(ready_.size()) / (4.0 * static_cast<double>(devices_)));
  }
  return features_;
}

void Plan::assign(std::size_t block, DeviceId d) {
  const UnitNeeds& needs = environment_->needs(block);
  weights_[d] += needs.persistent;
  working_[d] = std::max(working_[d], needs.working);
  load_[index(d)] += environment_->time(block, d);
  ++count_[index(d)];
  ++placed_;
}

void Plan::put(OpId v, DeviceId d) {
  const double here = arrival(d, [&](TensorId t, DeviceId from, double at) {
    there(t, d) = at;
    if (!channels_.limited()) return;
    for (const std::size_t c : {channels_.sending(from), channels_.receiving(d)})
      channel_free_[c] = std::max(channel_free_[c], at);
  });
  device_[v] = d;
  end_[v] = std::max(here, free_at_[index(d)]) +
            static_cast<double>(problem_->costs.compute(v, d).count());
  free_at_[index(d)] = end_[v];
  last_ = std::max(last_, end_[v]);
  for (const EdgeId e : problem_->graph.out_edges(v)) {
    const OpId reader = problem_->graph.edge(e).dst;
    if (--missing_[reader] > 0) continue;
    double at = 0.0;
    for (const EdgeId in : problem_->graph.in_edges(reader))
      at = std::max(at, end_[problem_->graph.edge(in).src]);
    ready_.push_back({at, reader});
    std::ranges::push_heap(ready_, std::greater{});
  }
}

}  // namespace baechi::learned
