#include "sim/transform/training/gradients.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "sim/saturated.h"

namespace baechi {
namespace {

/// Output number of gradients among the op's persistent bytes; outputs count from 1.
constexpr std::size_t held = 0;

/// Whether the counterpart of `t` in the first micro-batch is a reference. (Later copies are also
/// references if they are accumulated into the first.)
bool first_is_reference(const OpGraph& graph, TensorId t) {
  const OpId v = graph.tensor(t).producer;
  const auto of_first = graph.outputs(graph.micro_batch(v).first);
  const std::size_t place = index(t) - index(*graph.outputs(v).begin());
  if (place >= of_first.size()) return graph.tensor(t).reference;
  return graph.tensor(of_first[place]).reference;
}

/// The update ops that read `t`, ascending.
std::vector<OpId> updates_by(const OpGraph& graph, TensorId t) {
  std::vector<OpId> updates;
  for (const EdgeId e : graph.readers(t)) {
    const OpId reader = graph.edge(e).dst;
    if (graph.op(reader).phase == Phase::update) updates.push_back(reader);
  }
  std::ranges::sort(updates);
  return updates;
}

}  // namespace

bool is_weight_gradient(const OpGraph& graph, TensorId t) {
  const Tensor& tensor = graph.tensor(t);
  const auto readers = graph.readers(t);
  return graph.op(tensor.producer).phase == Phase::backward && !tensor.control &&
         !tensor.reference && !readers.empty() && std::ranges::all_of(readers, [&](EdgeId e) {
           return graph.op(graph.edge(e).dst).phase == Phase::update;
         });
}

Bytes gradient_workspace(const OpGraph& graph, OpId v) {
  Bytes bytes;
  if (graph.micro_batch(v).number == 0) return bytes;
  for (const TensorId t : graph.outputs(v)) {
    const Tensor& tensor = graph.tensor(t);
    if (tensor.reference && !tensor.control && !first_is_reference(graph, t)) bytes += tensor.size;
  }
  return bytes;
}

OpId Gradient::last_producer() const {
  return added.empty() ? producer : std::max(producer, added.back().producer);
}

std::vector<Gradient> gradients_of(const OpGraph& graph, bool each) {
  std::vector<Gradient> all;
  std::map<std::pair<OpId, std::size_t>, std::size_t> made;  // op and output, into all
  const auto make = [&](Gradient gradient, std::size_t output) {
    if (each) gradient.micro_batch = graph.micro_batch(gradient.producer).number;
    made.emplace(std::pair(gradient.producer, output), all.size());
    all.push_back(std::move(gradient));
  };
  // Accumulates into the gradient of the first micro-batch, if there is one.
  const auto add = [&](OpId v, std::size_t output, std::optional<TensorId> tensor) {
    const auto it = each ? made.end() : made.find({graph.micro_batch(v).first, output});
    if (it != made.end()) all[it->second].added.push_back({v, tensor});
    return it != made.end();
  };
  for (const bool later : {false, true}) {
    for (const OpId v : graph.ops()) {
      if (graph.op(v).phase != Phase::backward || (graph.micro_batch(v).number > 0) != later)
        continue;
      bool any_tensor = false;
      std::vector<OpId> waiting;  // by control edges
      std::size_t output = 0;
      for (const TensorId t : graph.outputs(v)) {
        const Tensor& tensor = graph.tensor(t);
        std::vector<OpId> updates = updates_by(graph, t);
        ++output;
        if (updates.empty() || first_is_reference(graph, t)) continue;
        if (tensor.control) {
          waiting = std::move(updates);
        } else {
          any_tensor = true;
          if (!later || !add(v, output, t)) make({v, tensor.size, t, std::move(updates)}, output);
        }
      }
      if (any_tensor || waiting.empty()) continue;
      if (later && add(v, held, std::nullopt)) continue;
      const Bytes bytes = graph.op(each ? graph.micro_batch(v).first : v).persistent;
      if (bytes > Bytes{}) make({v, bytes, std::nullopt, std::move(waiting)}, held);
    }
  }
  std::ranges::stable_sort(all, {}, &Gradient::last_producer);
  return all;
}

std::vector<Gradient> assumed_gradients(const OpGraph& graph, double share) {
  std::map<OpId, std::map<OpId, OpId>>
      differentiated;  // forward op, its copies, the last op of each
  for (const OpId v : graph.ops()) {
    const Op& op = graph.op(v);
    if (op.phase == Phase::backward && op.forward != no_op)
      differentiated[graph.micro_batch(op.forward).first][op.forward] = v;
  }
  std::vector<Gradient> all;
  for (const auto& [forward, backward] : differentiated) {
    const double bytes = share * static_cast<double>(graph.op(forward).persistent.count);
    if (!(bytes > 0.0)) continue;
    Gradient gradient{.bytes = Bytes{saturated(std::ceil(bytes))}};
    for (const auto& [copy, last] : backward) gradient.added.push_back({last, std::nullopt});
    std::ranges::sort(gradient.added, {}, &AddedGradient::producer);
    gradient.producer = gradient.added.front().producer;
    gradient.added.erase(gradient.added.begin());
    all.push_back(std::move(gradient));
  }
  std::ranges::stable_sort(all, {}, &Gradient::last_producer);
  return all;
}

IdVector<OpId, std::vector<OpId>> updates_of_weights(const OpGraph& graph) {
  const auto has_weights = [&](OpId v) {
    return graph.op(v).phase == Phase::forward && graph.op(v).persistent > Bytes{};
  };
  IdVector<OpId, std::vector<OpId>> all(graph.num_ops());
  for (const Gradient& g : gradients_of(graph))
    if (const OpId v = graph.op(g.producer).forward; v != no_op && has_weights(v))
      all[v].insert(all[v].end(), g.updates.begin(), g.updates.end());
  for (const OpId v : graph.ops()) {
    std::vector<OpId>& updates = all[v];
    if (updates.empty() && has_weights(v) && graph.op(v).group != no_group)
      for (const OpId w : graph.members(graph.op(v).group))
        if (graph.op(w).phase == Phase::update) updates.push_back(w);
    std::ranges::sort(updates);
    const auto twice = std::ranges::unique(updates);
    updates.erase(twice.begin(), twice.end());
  }
  return all;
}

std::vector<Bucket> buckets_of(const std::vector<Gradient>& gradients,
                               const IdVector<OpId, DeviceId>& device, Bytes first_limit,
                               Bytes limit) {
  std::map<std::pair<DeviceId, bool>, std::vector<Bucket>> by_device;
  for (const Gradient& gradient : gradients) {
    const DeviceId d = device[gradient.producer];
    std::vector<Bucket>& buckets = by_device[{d, gradient.expert}];
    const auto is_full = [&] {
      return buckets.back().bytes >= (buckets.size() == 1 ? first_limit : limit);
    };
    if (buckets.empty() || is_full() ||
        buckets.back().gradients.back().micro_batch != gradient.micro_batch)
      buckets.push_back({.device = d});
    buckets.back().bytes += gradient.bytes;
    buckets.back().gradients.push_back(gradient);
  }
  std::vector<Bucket> all;
  for (auto& [key, buckets] : by_device) std::ranges::move(buckets, std::back_inserter(all));
  return all;
}

}  // namespace baechi
