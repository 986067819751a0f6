#include "placers/learned/plan.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "placers/learned/arithmetic.h"
#include "placers/learned/describe.h"

namespace baechi::learned {

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

double Plan::bytes_of(EdgeId e) const {
  return static_cast<double>(problem_->graph.tensor(problem_->graph.edge(e).tensor).size.count);
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
      nearby_[index(device_[edge.src])] += bytes_of(in);
    }
  double sum = 0.0;
  for (const double bytes : nearby_) sum += bytes;
  if (sum > 0.0)
    for (double& bytes : nearby_) bytes /= sum;
}

Plan::Inputs Plan::inputs() const {
  Inputs all{.parents = static_cast<double>(inputs_.size())};
  double largest = -1.0;
  for (const EdgeId e : inputs_) {
    const double size = bytes_of(e);
    all.bytes += size;
    if (size <= largest) continue;
    largest = size;
    all.largest_on = device_[problem_->graph.edge(e).src];
  }
  return all;
}

Plan::Outlook Plan::outlook(std::size_t block, DeviceId d, const Inputs& inputs) {
  Outlook o{.time = environment_->time(block, d), .load = load_[index(d)]};
  o.start = std::max(free_at_[index(d)], arrival(d, [&](TensorId t, DeviceId from, double) {
                       o.sending += environment_->transfer(t, from, d);
                     }));
  o.finish = o.start + o.time;
  for (const EdgeId e : inputs_) {
    const Edge& edge = problem_->graph.edge(e);
    if (device_[edge.src] != d && there(edge.tensor, d) < 0.0) continue;
    if (inputs.bytes > 0.0) o.bytes_there += bytes_of(e) / inputs.bytes;
    o.parents_there += 1.0 / inputs.parents;
  }
  return o;
}

std::span<const double> Plan::features(std::size_t block, OpId first,
                                       std::span<const DeviceId> devices) {
  const Inputs all = inputs();
  count_readers_parents(first);
  outlooks_.clear();
  for (const DeviceId d : devices) outlooks_.push_back(outlook(block, d, all));
  const auto least = [&](double Outlook::* what) {
    double found = 1e300;
    for (const Outlook& o : outlooks_) found = std::min(found, o.*what);
    return found;
  };
  const double start = least(&Outlook::start), finish = least(&Outlook::finish),
               load = least(&Outlook::load), fastest = least(&Outlook::time);
  const double scale = 1.0 / (0.05 * environment_->mean_load() + fastest);
  features_.clear();
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const DeviceId d = devices[i];
    const Outlook& o = outlooks_[i];
    const double channel = channels_.limited() ? std::max(channel_free_[channels_.sending(d)],
                                                          channel_free_[channels_.receiving(d)])
                                               : 0.0;
    const double row[] = {
        // as in device_feature_names
        squashed((o.start - start) * scale),
        squashed((o.finish - finish) * scale),
        o.finish <= finish ? 1.0 : 0.0,
        squashed((o.load - load) * scale),
        o.bytes_there,
        o.parents_there,
        free_share(limit_[d] - weights_[d] - working_[d], limit_[d]),
        o.time > 0.0 ? fastest / o.time : 1.0,
        empty(d) ? 1.0 : 0.0,
        all.largest_on == d ? 1.0 : 0.0,
        static_cast<double>(placed_) / static_cast<double>(environment_->num_blocks()),
        squashed(std::max(free_at_[index(d)] - now_, 0.0) * scale),
        now_ > 0.0 ? std::min(o.load / now_, 1.0) : 1.0,
        squashed(std::max(channel - now_, 0.0) * scale),
        o.sending > 0.0 ? o.sending / (o.sending + std::max(o.time, 1.0)) : 0.0,
        nearby_[index(d)],
        squashed(static_cast<double>(ready_.size()) / (4.0 * static_cast<double>(devices_)))};
    static_assert(std::size(row) == device_feature_names.size());
    features_.insert(features_.end(), std::begin(row), std::end(row));
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
