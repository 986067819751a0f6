#include "sim/transform/gradients.h"

#include <algorithm>
#include <cmath>
#include <map>

namespace baechi {
namespace {

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

std::vector<Gradient> gradients_of(const OpGraph& graph, std::int64_t shards) {
  std::vector<Gradient> all;
  for (const OpId v : graph.ops()) {
    if (graph.op(v).phase != Phase::backward) continue;
    bool any_tensor = false;
    std::vector<OpId> waiting;  // by control edges
    for (const TensorId t : graph.outputs(v)) {
      const Tensor& tensor = graph.tensor(t);
      std::vector<OpId> updates = updates_by(graph, t);
      if (updates.empty() || tensor.reference) continue;
      if (tensor.control) {
        waiting = std::move(updates);
      } else {
        any_tensor = true;
        all.push_back({v, tensor.size, t, std::move(updates)});
      }
    }
    const Bytes held{shards * graph.op(v).persistent.count};
    if (!any_tensor && !waiting.empty() && held > Bytes{})
      all.push_back({v, held, std::nullopt, std::move(waiting)});
  }
  return all;
}

std::vector<Gradient> assumed_gradients(const OpGraph& graph, double share) {
  std::map<OpId, OpId> differentiated;  // forward op, and the last op that differentiates it
  for (const OpId v : graph.ops()) {
    const Op& op = graph.op(v);
    if (op.phase == Phase::backward && op.forward != no_op) differentiated[op.forward] = v;
  }
  std::vector<Gradient> all;
  for (const auto& [forward, backward] : differentiated) {
    const double bytes = share * static_cast<double>(graph.op(forward).persistent.count);
    if (bytes > 0.0)
      all.push_back(
          {backward, Bytes{static_cast<std::int64_t>(std::ceil(bytes))}, std::nullopt, {}});
  }
  std::ranges::stable_sort(all, {}, &Gradient::producer);
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
  std::map<DeviceId, std::vector<Bucket>> by_device;
  for (const Gradient& gradient : gradients) {
    const DeviceId d = device[gradient.producer];
    std::vector<Bucket>& buckets = by_device[d];
    const auto is_full = [&] {
      return buckets.back().bytes >= (buckets.size() == 1 ? first_limit : limit);
    };
    if (buckets.empty() || is_full()) buckets.push_back({.device = d});
    buckets.back().bytes += gradient.bytes;
    buckets.back().gradients.push_back(gradient);
  }
  std::vector<Bucket> all;
  for (auto& [d, buckets] : by_device) std::ranges::move(buckets, std::back_inserter(all));
  return all;
}

}  // namespace baechi
