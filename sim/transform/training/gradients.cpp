#include "sim/transform/training/gradients.h"

#include <cmath>
#include <tuple>

#include "sim/text.h"
#include "sim/transform/training/data_parallel.h"

namespace baechi {

std::string_view layer_of(std::string_view name) {
  bool number = false;  // in the parts so far
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (number && (name[i] == '/' || name[i] == '.')) return name.substr(0, i);
    number = number || (name[i] >= '0' && name[i] <= '9');
  }
  return {};
}

Segments segments_by_layer(const OpGraph& graph) {
  Segments segment(graph.num_ops(), no_segment);
  std::map<std::string, std::uint32_t, std::less<>> known;
  auto last = known.end();  // the layer of the previous op, usually the same
  for (const OpId v : graph.ops()) {
    if (graph.op(v).phase != Phase::forward) continue;
    const std::string_view layer = layer_of(graph.name(v));
    if (layer.empty()) continue;
    if (last == known.end() || last->first != layer)
      last = known.emplace(layer, static_cast<std::uint32_t>(known.size())).first;
    segment[v] = last->second;
  }
  const auto backward = [&](OpId v) { return graph.op(v).phase == Phase::backward; };
  if (known.empty() && std::ranges::any_of(graph.ops(), backward))
    throw InputError(
        "recompute: no name of a forward op has a part with a number, which would say its layer; "
        "give segments: N, or names: [pattern, ...]");
  return segment;
}

Segments segments_by_bytes(const OpGraph& graph, std::uint32_t count) {
  const auto written = [&](OpId v) {
    std::int64_t sum = 1;  // so that ops without outputs count, too
    for (const TensorId t : graph.outputs(v)) sum += graph.tensor(t).held().count;
    return graph.op(v).phase == Phase::forward ? sum : 0;
  };
  double all = 0.0, before = 0.0;
  for (const OpId v : graph.ops()) all += static_cast<double>(written(v));
  Segments segment(graph.num_ops(), no_segment);
  for (const OpId v : graph.ops()) {
    if (graph.op(v).phase != Phase::forward) continue;
    segment[v] = std::min(count - 1, static_cast<std::uint32_t>(before / all * count));
    before += static_cast<double>(written(v));
  }
  return segment;
}

Segments segments_by_names(const OpGraph& graph, const std::vector<std::string>& patterns) {
  Segments segment(graph.num_ops(), no_segment);
  for (std::uint32_t p = 0; p < patterns.size(); ++p) {
    bool any = false;
    for (const OpId v : graph.ops()) {
      if (graph.op(v).phase != Phase::forward || !Wildcard{patterns[p]}.matches(graph.name(v)))
        continue;
      any = true;
      if (segment[v] == no_segment) segment[v] = p;
    }
    if (!any)
      throw InputError(fmt::format("recompute: no forward op has a name like '{}'", patterns[p]));
  }
  return segment;
}

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

namespace {

/// The weights of one op, and the ops on its device that read them in one pass.
struct Use {
  Bytes weights{};
  std::vector<OpId> users{};
  bool expert = false;
};

/// For each forward op the backward ops of its micro-batch that read its weights; without those
/// that have no kernels, if others do. [num_ops]
IdVector<OpId, std::vector<OpId>> backward_users(const OpGraph& graph) {
  IdVector<OpId, std::vector<OpId>> users(graph.num_ops());
  for (const OpId v : graph.ops()) {
    const Op& op = graph.op(v);
    if (op.phase == Phase::backward && op.forward != no_op) users[op.forward].push_back(v);
  }
  const auto computes = [&](OpId v) { return !graph.kernels(v).empty(); };
  for (std::vector<OpId>& all : users)
    if (std::ranges::any_of(all, computes)) std::erase_if(all, std::not_fn(computes));
  for (const OpId v : graph.ops()) {
    const Op& op = graph.op(v);
    if (op.phase != Phase::forward || op.group == no_group || !users[v].empty()) continue;
    for (const OpId w : graph.members(op.group))
      if (graph.op(w).phase == Phase::backward &&
          graph.micro_batch(w).number == graph.micro_batch(v).number)
        users[v].push_back(w);
  }
  return users;
}

/// The unsharded weights that forward ops read, with their readers in sequence: ops of one
/// micro-batch, kind and group, such as the steps of an RNN cell. An op without weights, in a group
/// that holds some, reads OpWork::weights in a separate gather if no op of its kind holds them,
/// such as a tied output layer.
std::vector<Use> weights_read(const OpGraph& graph, std::int64_t shards,
                              std::int64_t expert_shards) {
  std::vector<Use> all;
  std::map<std::tuple<GroupId, std::uint32_t, std::uint32_t>, std::size_t> of_kind;  // into all
  std::set<GroupId> holding;
  const auto key = [&](OpId v) {
    return std::tuple(graph.op(v).group, graph.op(v).kind, graph.micro_batch(v).number);
  };
  for (const OpId v : graph.ops()) {
    const Op& holder = graph.op(graph.micro_batch(v).first);
    if (holder.phase != Phase::forward || holder.persistent == Bytes{}) continue;
    of_kind.emplace(key(v), all.size());
    holding.insert(holder.group);
    const bool expert = expert_shards > 0 && is_expert(graph, v);
    all.push_back(
        {Bytes{(expert ? expert_shards : shards) * holder.persistent.count}, {v}, expert});
  }
  for (const OpId v : graph.ops()) {
    const Op& op = graph.op(v);
    if (op.phase != Phase::forward || op.group == no_group || !holding.contains(op.group) ||
        graph.op(graph.micro_batch(v).first).persistent > Bytes{} ||
        graph.work(v).weights == Bytes{})
      continue;
    if (const auto holder_use = of_kind.find(key(v)); holder_use != of_kind.end())
      all[holder_use->second].users.push_back(v);
    else
      all.push_back({graph.work(v).weights, {v}});
  }
  for (Use& use : all) std::ranges::sort(use.users);
  return all;
}

/// Uses in the order of first users, joined until they have `limit` bytes.
void add_buckets(std::vector<WeightGather>& all, DeviceId d, std::vector<Use> uses, Bytes limit) {
  std::ranges::stable_sort(uses, {}, [](const Use& u) { return u.users.front(); });
  bool full = true;
  for (const Use& use : uses) {
    if (full) all.push_back({.device = d, .expert = use.expert});
    WeightGather& gather = all.back();
    gather.bytes += use.weights;
    gather.users.insert(gather.users.end(), use.users.begin(), use.users.end());
    full = gather.bytes >= limit;
  }
}

}  // namespace

std::vector<WeightGather> weight_gathers(const OpGraph& graph,
                                         const IdVector<OpId, DeviceId>& device,
                                         std::int64_t shards, Bytes limit,
                                         std::int64_t expert_shards) {
  const auto backward = backward_users(graph);
  struct Uses {
    std::vector<Use> forward{}, backward{};
  };
  std::map<std::pair<DeviceId, bool>, std::map<std::uint32_t, Uses>> uses;  // by micro-batch
  for (const auto& [weights, readers, expert] : weights_read(graph, shards, expert_shards)) {
    const DeviceId d = device[readers.front()];
    Uses& here = uses[{d, expert}][graph.micro_batch(readers.front()).number];
    Use use{weights, {}, expert};
    for (const OpId v : readers)
      for (const OpId w : backward[v])
        if (device[w] == d) use.users.push_back(w);
    here.forward.push_back({weights, readers, expert});
    std::ranges::sort(use.users);
    if (!use.users.empty()) here.backward.push_back(std::move(use));
  }
  std::vector<WeightGather> all;
  for (auto& [key, micro_batches] : uses) {
    const DeviceId d = key.first;
    std::vector<WeightGather> here;
    for (auto& [number, of] : micro_batches) {
      add_buckets(here, d, std::move(of.forward), limit);
      add_buckets(here, d, std::move(of.backward), limit);
    }
    for (WeightGather& gather : here) {
      std::ranges::sort(gather.users);
      const auto twice = std::ranges::unique(gather.users);
      gather.users.erase(twice.begin(), twice.end());
    }
    for (std::size_t k = 2; k < here.size(); ++k) {
      for (const OpId v : here[k - 2].users)
        if (v < here[k].first_user()) here[k].waits_for = v;
    }
    std::ranges::move(here, std::back_inserter(all));
  }
  std::ranges::stable_sort(all, {}, &WeightGather::first_user);
  return all;
}

}  // namespace baechi
