#include "placers/learned/partial_schedule.h"

#include <algorithm>
#include <functional>
#include <iterator>

#include "placers/learned/arithmetic.h"
#include "placers/learned/describe.h"

namespace baechi::learned {
PartialSchedule::PartialSchedule(const Environment& environment)
    : environment_(&environment),
      problem_(&environment.problem()),
      devices_(problem_->cluster.num_devices()),
      transfers_(*problem_, problem_->engine.transfers),
      memory_(*problem_) {
  clear();
}

void PartialSchedule::clear() {
  const OpGraph& graph = problem_->graph;
  transfers_.clear();
  missing_.assign(graph.num_ops(), 0U);
  ready_.clear();
  for (const OpId v : graph.ops()) {
    missing_[v] = static_cast<std::uint32_t>(graph.in_edges(v).size());
    if (missing_[v] == 0) ready_.push_back({TimePoint{}, v});
  }
  std::ranges::make_heap(ready_, std::greater{});
  free_at_.assign(devices_, TimePoint{});
  load_.assign(devices_, 0.0);
  count_.assign(devices_, 0);
  placed_ = 0;
  now_ = last_ = {};
  memory_.clear();
}

std::optional<OpId> PartialSchedule::next() {
  if (ready_.empty()) return {};
  std::ranges::pop_heap(ready_, std::greater{});
  const Ready first = ready_.back();
  ready_.pop_back();
  now_ = first.at;
  transfers_.find_inputs(first.op);
  return first.op;
}

std::span<const DeviceId> PartialSchedule::choices(std::size_t bundle, DeviceId also) {
  choices_.clear();
  const auto gather = [&](const auto& wanted) {
    bool empty_seen = false;
    for (const DeviceId d : environment_->able(bundle)) {
      const bool repeated = environment_->interchangeable() && empty_seen && empty(d);
      if (d != also && (repeated || !wanted(d))) continue;
      empty_seen = empty_seen || empty(d);
      choices_.push_back(d);
    }
  };
  gather([&](DeviceId d) { return memory_.fits(environment_->needs(bundle), d); });
  if (choices_.empty()) gather([](DeviceId) { return true; });
  return choices_;
}

double PartialSchedule::bytes_of(TensorId t) const {
  return static_cast<double>(problem_->graph.tensor(t).size.count);
}

/// [devices] Into nearby_: for each reader of what `first` writes, its other inputs that are
/// placed already, in bytes.
void PartialSchedule::count_readers_parents(OpId first) {
  const OpGraph& graph = problem_->graph;
  nearby_.assign(devices_, 0.0);
  for (const EdgeId out : graph.out_edges(first))
    for (const EdgeId in : graph.in_edges(graph.edge(out).dst)) {
      const Edge& edge = graph.edge(in);
      const DeviceId on = transfers_.device(edge.src);
      if (on != nowhere) nearby_[index(on)] += bytes_of(edge.tensor);
    }
  double sum = 0.0;
  for (const double bytes : nearby_) sum += bytes;
  if (sum > 0.0)
    for (double& bytes : nearby_) bytes /= sum;
}

PartialSchedule::Inputs PartialSchedule::inputs_of(OpId v) const {
  const auto read = transfers_.inputs(v);
  Inputs all{.parents = static_cast<double>(read.size())};
  double largest = -1.0;
  for (const list::BookedTransfers::Input& in : read) {
    const double size = bytes_of(in.tensor);
    all.bytes += size;
    if (size <= largest) continue;
    largest = size;
    all.largest_on = in.src;
  }
  return all;
}

PartialSchedule::Outlook PartialSchedule::outlook(std::size_t bundle, OpId first, DeviceId d,
                                                  const Inputs& inputs) {
  using Input = list::BookedTransfers::Input;
  Outlook o{.time = environment_->time(bundle, d), .load = load_[d]};
  const TimePoint ready = transfers_.earliest(first, d, [&](const Input& in) {
    o.sending += environment_->transfer(in.tensor, in.src, d);
  });
  o.start = in_ns(std::max(free_at_[d], ready).time_since_epoch());
  o.finish = o.start + o.time;
  for (const Input& in : transfers_.inputs(first)) {
    if (!transfers_.holds(d, in)) continue;
    if (inputs.bytes > 0.0) o.bytes_there += bytes_of(in.tensor) / inputs.bytes;
    o.parents_there += 1.0 / inputs.parents;
  }
  return o;
}

std::span<const double> PartialSchedule::features(std::size_t bundle, OpId first,
                                                  std::span<const DeviceId> devices) {
  const Inputs all = inputs_of(first);
  count_readers_parents(first);
  outlooks_.clear();
  for (const DeviceId d : devices) outlooks_.push_back(outlook(bundle, first, d, all));
  const auto least = [&](double Outlook::* what) {
    double found = 1e300;
    for (const Outlook& o : outlooks_) found = std::min(found, o.*what);
    return found;
  };
  const double start = least(&Outlook::start), finish = least(&Outlook::finish),
               load = least(&Outlook::load), fastest = least(&Outlook::time);
  const double scale = 1.0 / (0.05 * environment_->mean_load() + fastest);
  const double now = in_ns(now_.time_since_epoch());
  const auto from_now = [&](TimePoint at) { return in_ns(std::max(at - now_, Duration{})); };
  features_.clear();
  for (std::size_t i = 0; i < devices.size(); ++i) {
    const DeviceId d = devices[i];
    const Outlook& o = outlooks_[i];
    const double row[] = {
        // as in device_feature_names
        squashed((o.start - start) * scale),
        squashed((o.finish - finish) * scale),
        o.finish <= finish ? 1.0 : 0.0,
        squashed((o.load - load) * scale),
        o.bytes_there,
        o.parents_there,
        free_share(memory_.left(d), memory_.limit(d)),
        o.time > 0.0 ? fastest / o.time : 1.0,
        empty(d) ? 1.0 : 0.0,
        all.largest_on == d ? 1.0 : 0.0,
        static_cast<double>(placed_) / static_cast<double>(environment_->num_bundles()),
        squashed(from_now(free_at_[d]) * scale),
        now > 0.0 ? std::min(o.load / now, 1.0) : 1.0,
        squashed(from_now(transfers_.channels_free(d)) * scale),
        o.sending > 0.0 ? o.sending / (o.sending + std::max(o.time, 1.0)) : 0.0,
        nearby_[index(d)],
        squashed(static_cast<double>(ready_.size()) / (4.0 * static_cast<double>(devices_)))};
    static_assert(std::size(row) == device_feature_names.size());
    features_.insert(features_.end(), std::begin(row), std::end(row));
  }
  return features_;
}

void PartialSchedule::assign(std::size_t bundle, DeviceId d) {
  memory_.add(environment_->needs(bundle), d);
  load_[d] += environment_->time(bundle, d);
  ++count_[d];
  ++placed_;
}

void PartialSchedule::put(OpId v, DeviceId d) {
  const OpGraph& graph = problem_->graph;
  const TimePoint start = std::max(free_at_[d], transfers_.book(v, d));
  free_at_[d] = start + problem_->costs.compute(v, d);
  transfers_.schedule(v, d, free_at_[d]);
  last_ = std::max(last_, free_at_[d]);
  for (const EdgeId e : graph.out_edges(v)) {
    const OpId reader = graph.edge(e).dst;
    if (--missing_[reader] > 0) continue;
    TimePoint at{};
    for (const EdgeId in : graph.in_edges(reader))
      at = std::max(at, transfers_.end(graph.edge(in).src));
    ready_.push_back({at, reader});
    std::ranges::push_heap(ready_, std::greater{});
  }
}

}  // namespace baechi::learned
