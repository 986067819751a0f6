#include <fmt/format.h>

#include <set>

#include "sim/pipeline/unroll.h"

namespace baechi::pipeline {
namespace {

class PassOrder {
 public:
  PassOrder(Copies& copies, const Ordered& of) : c_(copies), o_(of), graph_(of.problem.graph) {}

  void keep() {
    Users users;
    std::vector<OpId> hosted;  // ops on which the device's next host ops wait
    for (std::size_t k = 0; k < c_.passes.size(); ++k) {
      const bool follows = k > 0 && c_.passes[k - 1].device == c_.passes[k].device;
      if (!follows) users.clear(), hosted.clear();
      const std::vector<OpId> waiting = gather_ahead(c_.passes[k], users);
      if (follows) c_.gate(c_.passes[k].device, c_.passes[k - 1].last, waiting);
      launch(c_.passes[k], hosted);
    }
  }

  /// Sends requested by the receiver: see keep_order().
  void gate_requested_sends() {
    std::set<std::size_t> receiving;
    for (const auto& [v, sent] : c_.asked) {
      for (const auto& [device, by] : sent.by) receiving.insert(by);
      const std::size_t by = sent.by.size() == 1 ? sent.by.begin()->second : 0;
      if (by == 0 || c_.passes[by - 1].device != c_.passes[by].device) continue;
      for (const OpId end : c_.passes[by - 1].last) c_.builder.add_control(end, v);
    }
    for (const auto& [v, sent] : c_.asked) {
      const std::size_t from = c_.copies[v].pass, until = last_without(receiving, from);
      if (until == from) continue;
      for (const OpId end : c_.passes[until].last) c_.builder.add_edge(sent.tensor, end);
    }
  }

  void keep_program() {
    std::map<std::pair<DeviceId, LaneKind>, OpId> last;
    for (const DevicePass& pass : c_.passes) {
      std::vector<OpId> ops = pass.all;
      ops.insert(ops.end(), pass.host.begin(), pass.host.end());
      std::ranges::sort(ops);
      for (const OpId v : ops) {
        if (c_.copies[v].origin == no_op || is_asked(graph_, c_.copies[v].origin)) continue;
        const auto [it, first] =
            last.try_emplace({pass.device, graph_.lane(c_.copies[v].origin)}, v);
        if (!first) c_.builder.add_control(it->second, v);
        it->second = v;
      }
    }
  }

  /// A backward pass without ops waits for the backward passes of the chunks that read from its
  /// chunk.
  void end_empty_passes() {
    std::vector<std::set<std::uint32_t>> readers(o_.schedule.chunks);
    for (const EdgeId e : graph_.edges()) {
      const OpId src = graph_.edge(e).src, dst = graph_.edge(e).dst;
      if (is_forward(graph_, src) && is_forward(graph_, dst) &&
          o_.chunks.chunk[src] != o_.chunks.chunk[dst])
        readers[o_.chunks.chunk[src]].insert(o_.chunks.chunk[dst]);
    }
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::size_t>> backward;
    for (std::size_t k = 0; k < c_.passes.size(); ++k)
      if (c_.passes[k].pass.kind == PassKind::backward)
        backward[{c_.passes[k].pass.chunk, c_.passes[k].pass.micro_batch}].push_back(k);
    for (const DevicePass& pass : c_.passes) {
      if (pass.all.empty() || c_.copies[pass.all.front()].origin != no_op) continue;
      for (const std::uint32_t chunk : readers[pass.pass.chunk])
        for (const std::size_t k : backward[{chunk, pass.pass.micro_batch}])
          for (const OpId v : c_.passes[k].last) c_.builder.add_control(v, pass.all.front());
    }
  }

  /// Limits how far a forward pass runs ahead of the devices that read from its device: `ahead`
  /// micro-batches for each stage between them; for devices that feed each other, for all stages.
  void limit_lead() {
    std::set<std::pair<DeviceId, DeviceId>> feeds;
    for (const EdgeId e : graph_.edges()) {
      const OpId src = graph_.edge(e).src, dst = graph_.edge(e).dst;
      if (o_.placement.device[src] != o_.placement.device[dst] && is_forward(graph_, src) &&
          is_forward(graph_, dst))
        feeds.emplace(o_.placement.device[src], o_.placement.device[dst]);
    }
    std::map<std::pair<DeviceId, std::uint32_t>, std::size_t> pass_of;
    for (std::size_t k = 0; k < c_.passes.size(); ++k)
      pass_of[{c_.passes[k].device, c_.passes[k].pass.micro_batch}] = k;
    for (const DevicePass& pass : c_.passes) {
      std::vector<OpId> before;
      for (auto it = feeds.lower_bound({pass.device, DeviceId{0}});
           it != feeds.end() && it->first == pass.device; ++it) {
        const std::uint32_t here = o_.stages.stage[pass.device],
                            there = o_.stages.stage[it->second];
        const auto apart =
            static_cast<std::uint32_t>(there > here ? there - here : o_.stages.devices.size());
        const std::uint32_t i = pass.pass.micro_batch;
        if (i < o_.schedule.ahead * apart) continue;
        const auto& last = c_.passes[pass_of.at({it->second, i - o_.schedule.ahead * apart})].last;
        before.insert(before.end(), last.begin(), last.end());
      }
      c_.gate(pass.device, before, pass.first);
    }
  }

 private:
  /// The last pass before the update on the device of pass `from`, if no later pass receives; else
  /// `from`.
  std::size_t last_without(const std::set<std::size_t>& receiving, std::size_t from) const {
    std::size_t last = from;
    for (std::size_t k = from + 1; k < c_.passes.size(); ++k) {
      const DevicePass& pass = c_.passes[k];
      if (pass.device != c_.passes[from].device || pass.pass.kind == PassKind::update) break;
      if (receiving.contains(k)) return from;
      last = k;
    }
    return last;
  }

  /// The last user of each of the device's weight gathers so far, by the number of ranks: gathers
  /// of experts' weights are independent of the others.
  using Users = std::map<std::int64_t, std::vector<OpId>>;

  /// The first ops of a pass, without those that run ahead of it. A gather waits for the last user
  /// of the second gather before it, unless the user follows it in the pass.
  std::vector<OpId> gather_ahead(const DevicePass& pass, Users& all) {
    std::vector<OpId> waiting;
    for (const OpId v : pass.all) {
      const Copy& c = c_.copies[v];
      const bool copies_op = c.origin != no_op;
      const bool gathers = copies_op && c.last_user != no_op && serves(graph_, c.origin);
      const bool reduces = copies_op && reduces_gradients(graph_, c.origin);
      if (!c.reads_own && !gathers && !reduces) waiting.push_back(v);
      if (!gathers) continue;
      std::vector<OpId>& users = all[graph_.collectives()[graph_.collective_of(c.origin)].ranks];
      if (!c.reads_own && users.size() >= 2) {
        const OpId before = users[users.size() - 2];
        if (before < v || !std::ranges::binary_search(pass.all, before))
          c_.builder.add_control(before, v);
      }
      users.push_back(c.last_user);
    }
    return waiting;
  }

  void launch(const DevicePass& pass, std::vector<OpId>& before) {
    for (const OpId v : pass.host) {
      if (c_.copies[v].reads_own) continue;
      for (const OpId u : before) c_.builder.add_control(u, v);
    }
    if (!pass.host.empty()) before.clear();
    for (const OpId v : pass.host)
      if (!c_.copies[v].read_by_own) before.push_back(v);
    before.insert(before.end(), pass.awaited.begin(), pass.awaited.end());
  }

  Copies& c_;
  const Ordered& o_;
  const OpGraph& graph_;
};

}  // namespace

OpId Copies::add_order(DeviceId device) {
  // Names of copies have a #.
  builder.add_op({.name = fmt::format("order {}", copies.size())});
  return copies.push_back({.device = device});
}

void Copies::gate(DeviceId device, const std::vector<OpId>& before,
                  const std::vector<OpId>& after) {
  if (before.empty() || after.empty()) return;
  const OpId op = add_order(device);
  for (const OpId v : before) builder.add_control(v, op);
  for (const OpId v : after) builder.add_control(op, v);
}

void keep_order(Copies& copies, const Ordered& of) {
  PassOrder order(copies, of);
  order.end_empty_passes();
  order.keep();
  order.gate_requested_sends();
  if (of.problem.engine.queue == ReadyOrder::program) order.keep_program();
  if (of.schedule.ahead > 0) order.limit_lead();
}

}  // namespace baechi::pipeline
