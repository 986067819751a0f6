#include "sim/transform/training/weight_gathers.h"

#include <algorithm>
#include <functional>
#include <map>
#include <set>
#include <tuple>

#include "sim/transform/training/data_parallel.h"

namespace baechi {
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
    if (const auto held = of_kind.find(key(v)); held != of_kind.end())
      all[held->second].users.push_back(v);
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
