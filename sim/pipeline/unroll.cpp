#include "sim/pipeline/unroll.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "sim/error.h"
#include "sim/objective/replicas.h"

namespace baechi::pipeline {
namespace {

bool is_forward(const OpGraph& graph, OpId v) {
  return graph.op(v).phase == Phase::forward;
}

void check_phases(const OpGraph& graph, const ScheduleEntry& schedule) {
  bool linked = false;
  for (const EdgeId e : graph.edges()) {
    const Edge& edge = graph.edge(e);
    const bool from = is_forward(graph, edge.src), to = is_forward(graph, edge.dst);
    if (!from && to)
      throw InputError(fmt::format(
          "no pipeline: forward op '{}' reads from '{}', which is not of the forward pass",
          graph.name(edge.dst), graph.name(edge.src)));
    linked |= from && graph.op(edge.dst).phase == Phase::backward;
  }
  if (linked || !schedule.training) return;
  const bool any = std::ranges::any_of(
      graph.ops(), [&](OpId v) { return graph.op(v).phase == Phase::backward; });
  throw InputError(fmt::format(
      "{} is a schedule of training, and this graph is not training: {}", schedule.name,
      any ? "no backward op reads what a forward op writes (the importer dnn_partitioning joins "
            "the two passes with backward: mirrored)"
          : "it has no backward op (the schedule 'inference' streams forward passes)"));
}

const ScheduleEntry& entry(const PipelineOptions& options) {
  const ScheduleEntry* found = find_schedule(options.schedule);
  BAECHI_CHECK(found != nullptr, "no schedule '{}'", options.schedule);
  return *found;
}

Stages make_stages(const Problem& p, const Placement& placement, const ScheduleEntry& schedule) {
  if (schedule.layout == Layout::loop || schedule.layout == Layout::vee)
    return devices_as_stages(p, placement);
  Stages stages = stages_of(p, placement);
  if (schedule.layout == Layout::two_way && !stages.in_line)
    throw InputError(fmt::format(
        "{} needs devices in a line, and some devices of this placement feed each other",
        schedule.name));
  return stages;
}

/// The copies of one pass on one device, in the builder's ids.
struct DevicePass {
  Pass pass;
  DeviceId device{};
  std::vector<OpId> all{}, first{}, last{};
};

/// Copies ops of a builder's graph; ids below are the builder's.
class Unroller {
 public:
  Unroller(const Problem& p, const Placement& placement, const PipelineOptions& options)
      : p_(p), graph_(p.graph), home_(placement.device), options_(options), entry_(entry(options)) {
    check_phases(graph_, entry_);
    stages_ = make_stages(p, placement, entry_);
    chunks_ = chunks_of(p, placement, stages_, entry_);
    schedule_ = entry_.make(
        {.stages = stages_.count, .laps = chunks_.laps, .micro_batches = options.micro_batches});
    if (has_pass(PassKind::weights)) split_weights(graph_, chunks_);
    if (options.recompute && entry_.training) schedule_ = with_recompute(std::move(schedule_));
    copy_of_.assign(options.micro_batches, std::vector<OpId>(graph_.num_ops(), no_op));
    again_of_.assign(options.recompute ? options.micro_batches : 0,
                     std::vector<OpId>(graph_.num_ops(), no_op));
  }

  Unrolled make() {
    find_members();
    for (std::size_t s = 0; s < stages_.devices.size(); ++s) add_passes(stages_.devices[s]);
    for (std::uint32_t i = 0; i < options_.micro_batches; ++i) copy_edges(i);
    for (const auto* copies : {&copy_of_, &again_of_})
      for (const std::vector<OpId>& copy_of : *copies) copy_collectives(copy_of);
    for (DevicePass& pass : passes_) find_ends(pass);
    end_empty_passes();
    keep_order();
    return build();
  }

 private:
  static constexpr std::size_t no_pass = ~std::size_t{0};
  struct Copy {
    OpId origin = no_op;
    std::uint32_t micro_batch = no_micro_batch;
    DeviceId device{};
    std::size_t pass = no_pass;  // into passes_
    TensorId first_output{};
    bool reads_own = false, read_by_own = false;  // pass
    OpId last_user = no_op;                       // of its own pass
  };
  using Members = std::vector<std::vector<OpId>>;  // [chunks] ops of one kind of pass

  bool has_pass(PassKind kind) const {
    return std::ranges::any_of(schedule_.passes, [&](const std::vector<Pass>& passes) {
      return std::ranges::find(passes, kind, &Pass::kind) != passes.end();
    });
  }

  void find_members() {
    for (Members& members : members_) members.resize(schedule_.chunks);
    for (const OpId v : graph_.ops()) {
      members_[static_cast<std::size_t>(chunks_.pass[v])][chunks_.chunk[v]].push_back(v);
      if (is_forward(graph_, v))
        members_[static_cast<std::size_t>(PassKind::recompute)][chunks_.chunk[v]].push_back(v);
    }
  }

  /// Whether op `v` of a chunk of stage `s` runs on `d`: at home, or, away from home, on the one
  /// device of the stage.
  bool runs_on(OpId v, std::size_t s, DeviceId d) const {
    return home_[v] == d || stages_.stage[home_[v]] != s;
  }

  void add_passes(DeviceId d) {
    const std::size_t s = stages_.stage[d];
    for (const Pass& pass : schedule_.passes[s]) {
      passes_.push_back({pass, d});
      for (const OpId v : members_[static_cast<std::size_t>(pass.kind)][pass.chunk])
        if (runs_on(v, s, d)) copy_op(v, pass);
      if (pass.kind == PassKind::backward && passes_.back().all.empty()) add_empty(pass);
      if (passes_.back().all.empty()) passes_.pop_back();
    }
  }

  void copy_op(OpId v, const Pass& pass) {
    const Op& op = graph_.op(v);
    const DeviceId d = passes_.back().device;
    const bool again = pass.kind == PassKind::recompute;
    Bytes persistent;
    if (!again && held_.emplace(v, d).second)
      persistent = op.persistent + static_cast<int>(spare_versions(d)) * weights_of(op);
    const OpId copy = builder_.add_op(
        {.name = fmt::format("{}#{}{}", graph_.name(v), pass.micro_batch, again ? " again" : ""),
         .kind = graph_.kind(v),
         .compute = op.compute,
         .persistent = persistent,
         .temporary = op.temporary,
         .phase = op.phase,
         .lane = graph_.lanes()[index(op.lane)],
         .module = graph_.module(v)});
    Copy& c = copies_[copies_.push_back({v, pass.micro_batch, d, passes_.size() - 1})];
    for (const TensorId t : graph_.outputs(v)) {
      if (graph_.instant(t)) continue;
      const Tensor& tensor = graph_.tensor(t);
      const TensorId made =
          builder_.add_tensor(copy, tensor.size, tensor.reference || tensor.control);
      if (t == *graph_.outputs(v).begin()) c.first_output = made;
    }
    passes_.back().all.push_back(copy);
    (again ? again_of_ : copy_of_)[pass.micro_batch][index(v)] = copy;
  }

  void add_empty(const Pass& pass) {
    passes_.back().all.push_back(add_order(passes_.back().device));
    Copy& c = copies_[passes_.back().all.back()];
    c.micro_batch = pass.micro_batch;
    c.pass = passes_.size() - 1;
  }
  OpId add_order(DeviceId d) {
    builder_.add_op({.name = fmt::format("order#{}", copies_.size())});
    return copies_.push_back({.device = d});
  }

  static Bytes weights_of(const Op& op) {
    return op.phase == Phase::forward ? op.persistent : Bytes{};
  }
  std::size_t spare_versions(DeviceId d) const {
    return entry_.versions(stages_.stage[d], stages_.count) - 1;
  }

  void copy_edges(std::uint32_t i) {
    for (const EdgeId e : graph_.edges()) {
      const Edge& edge = graph_.edge(e);
      const OpId from = copy_of_[i][index(edge.src)], to = copy_of_[i][index(edge.dst)];
      if (again_of_.empty()) {
        if (from != no_op && to != no_op) read(edge.tensor, from, to);
        continue;
      }
      const OpId from_again = again_of_[i][index(edge.src)],
                 to_again = again_of_[i][index(edge.dst)];
      const bool near = from_again != no_op && home_[edge.src] == home_[edge.dst] &&
                        chunks_.chunk[edge.src] == chunks_.chunk[edge.dst];
      if (to_again != no_op) read(edge.tensor, near ? from_again : from, to_again);
      if (from == no_op || to == no_op) continue;
      read(edge.tensor, near && !is_forward(graph_, edge.dst) ? from_again : from, to);
    }
  }

  void copy_collectives(const std::vector<OpId>& copy_of) {
    for (const Collective& c : graph_.collectives()) {
      for (const OpId v : c.member_ids()) {
        if (stages_.stage[home_[v]] == stages_.stage[home_[c.first]]) continue;
        throw InputError(fmt::format("no pipeline: the {} of '{}' joins several stages",
                                     to_text(c.kind), graph_.name(c.first)));
      }
      std::vector<OpId> members;
      for (const OpId v : c.member_ids())
        if (copy_of[index(v)] != no_op) members.push_back(copy_of[index(v)]);
      if (members.size() == c.members)
        builder_.add_collective(c, members);
      else if (!members.empty())
        throw InputError(fmt::format("no pipeline: the {} of '{}' has members in different passes",
                                     to_text(c.kind), graph_.name(c.first)));
    }
  }

  void read(TensorId t, OpId from, OpId to) {
    Copy& a = copies_[from];
    Copy& b = copies_[to];
    if (a.pass == b.pass) {
      a.read_by_own = true;
      b.reads_own |= !sums_gradients(a.origin) && !gathers_weights(a.origin);
      if (a.last_user == no_op || a.last_user < to) a.last_user = to;
    }
    if (graph_.instant(t)) return builder_.add_control(from, to);
    const std::size_t output = index(t) - index(*graph_.outputs(a.origin).begin());
    builder_.add_edge(static_cast<TensorId>(index(a.first_output) + output), to);
  }

  void find_ends(DevicePass& pass) const {
    for (const OpId v : pass.all) {
      if (!copies_[v].reads_own) pass.first.push_back(v);
      if (!copies_[v].read_by_own) pass.last.push_back(v);
    }
  }

  /// A backward pass without ops waits for the backward passes of the chunks that read from it.
  void end_empty_passes() {
    std::vector<std::set<std::uint32_t>> readers(schedule_.chunks);
    for (const EdgeId e : graph_.edges()) {
      const OpId src = graph_.edge(e).src, dst = graph_.edge(e).dst;
      if (is_forward(graph_, src) && is_forward(graph_, dst) &&
          chunks_.chunk[src] != chunks_.chunk[dst])
        readers[chunks_.chunk[src]].insert(chunks_.chunk[dst]);
    }
    std::map<std::pair<std::uint32_t, std::uint32_t>, std::vector<std::size_t>> backward;
    for (std::size_t k = 0; k < passes_.size(); ++k)
      if (passes_[k].pass.kind == PassKind::backward)
        backward[{passes_[k].pass.chunk, passes_[k].pass.micro_batch}].push_back(k);
    for (const DevicePass& pass : passes_) {
      if (copies_[pass.all.front()].origin != no_op) continue;
      for (const std::uint32_t chunk : readers[pass.pass.chunk])
        for (const std::size_t k : backward[{chunk, pass.pass.micro_batch}])
          for (const OpId v : passes_[k].last) builder_.add_control(v, pass.all.front());
    }
  }

  void gate(DeviceId device, const std::vector<OpId>& before, const std::vector<OpId>& after) {
    if (before.empty() || after.empty()) return;
    const OpId op = add_order(device);
    for (const OpId v : before) builder_.add_control(v, op);
    for (const OpId v : after) builder_.add_control(op, v);
  }

  /// Collectives of the update pass wait for what they send alone: buckets of gradients go beside
  /// the last backward pass. An all_gather of weights is one ahead of the ops that read the last
  /// ones, also where these are of the pass before.
  void keep_order() {
    std::vector<OpId> users;  // of the device's gathers so far, the last one of each
    for (std::size_t k = 0; k < passes_.size(); ++k) {
      const bool follows = k > 0 && passes_[k - 1].device == passes_[k].device;
      if (!follows) users.clear();
      const bool ends = follows && ends_with(passes_[k - 1].pass, passes_[k].pass);
      const std::vector<OpId> waiting = gather_ahead(passes_[k], users, ends);
      if (follows) gate(passes_[k].device, passes_[k - 1].last, waiting);
    }
    if (schedule_.ahead > 0) keep_near();
  }

  /// Whether `update` waits for the gradients of `last`, the pass before it.
  static bool ends_with(const Pass& last, const Pass& update) {
    return update.kind == PassKind::update && last.micro_batch == update.micro_batch &&
           last.chunk == update.chunk;
  }

  /// The first ops of a pass but for those that run ahead of it.
  std::vector<OpId> gather_ahead(const DevicePass& pass, std::vector<OpId>& users,
                                 bool sums_ahead) {
    std::vector<OpId> waiting;
    for (const OpId v : pass.all) {
      const Copy& c = copies_[v];
      const bool gathers = c.origin != no_op && c.last_user != no_op && gathers_weights(c.origin);
      const bool sums = sums_ahead && sums_gradients(c.origin);
      if (!c.reads_own && !gathers && !sums) waiting.push_back(v);
      if (!gathers) continue;
      if (!c.reads_own && users.size() >= 2) builder_.add_control(users[users.size() - 2], v);
      users.push_back(c.last_user);
    }
    return waiting;
  }

  /// Whether `v` is a collective of the update pass.
  bool sums_gradients(OpId v) const {
    return v != no_op && graph_.op(v).phase == Phase::update &&
           graph_.collective_of(v) != no_collective;
  }
  /// Whether `v` is an all_gather of a pass that waits for nothing but its turn.
  bool gathers_weights(OpId v) const {
    const CollectiveId c = graph_.collective_of(v);
    return c != no_collective && graph_.op(v).phase != Phase::update &&
           graph_.collectives()[c].kind == CollectiveKind::all_gather &&
           std::ranges::all_of(graph_.in_edges(v), [&](EdgeId e) {
             return graph_.tensor(graph_.edge(e).tensor).control;
           });
  }

  /// A forward pass waits until the devices that read from its device have done the micro-batch
  /// that is `ahead` before it for each stage between them; devices that feed each other, as if
  /// all stages were between them.
  void keep_near() {
    std::set<std::pair<DeviceId, DeviceId>> feeds;
    for (const EdgeId e : graph_.edges()) {
      const OpId src = graph_.edge(e).src, dst = graph_.edge(e).dst;
      if (home_[src] != home_[dst] && is_forward(graph_, src) && is_forward(graph_, dst))
        feeds.emplace(home_[src], home_[dst]);
    }
    std::map<std::pair<DeviceId, std::uint32_t>, std::size_t> pass_of;
    for (std::size_t k = 0; k < passes_.size(); ++k)
      pass_of[{passes_[k].device, passes_[k].pass.micro_batch}] = k;
    for (const DevicePass& pass : passes_) {
      std::vector<OpId> before;
      for (auto it = feeds.lower_bound({pass.device, DeviceId{0}});
           it != feeds.end() && it->first == pass.device; ++it) {
        const std::uint32_t here = stages_.stage[pass.device], there = stages_.stage[it->second];
        const auto apart =
            static_cast<std::uint32_t>(there > here ? there - here : stages_.devices.size());
        const std::uint32_t i = pass.pass.micro_batch;
        if (i < schedule_.ahead * apart) continue;
        const auto& last = passes_[pass_of.at({it->second, i - schedule_.ahead * apart})].last;
        before.insert(before.end(), last.begin(), last.end());
      }
      gate(pass.device, before, pass.first);
    }
  }

  Unrolled build() {
    Unrolled result;
    result.stages = stages_;
    IdVector<OpId, OpId> renumbered;
    result.graph = std::move(builder_).build(&renumbered).with_free_controls();
    const std::size_t n = result.graph.num_ops();
    result.origin = IdVector<OpId, OpId>(n, no_op);
    result.micro_batch = IdVector<OpId, std::uint32_t>(n);
    result.placement.device = IdVector<OpId, DeviceId>(n);
    result.tensor_origin = IdVector<TensorId, TensorId>(result.graph.num_tensors());
    for (const OpId v : copies_.ids()) {
      const Copy& c = copies_[v];
      const OpId now = renumbered[v];
      result.origin[now] = c.origin;
      result.micro_batch[now] = c.micro_batch;
      result.placement.device[now] = c.device;
      if (c.origin == no_op) continue;
      const auto made = result.graph.outputs(now), given = graph_.outputs(c.origin);
      for (std::size_t k = 0; k < std::min(made.size(), given.size()); ++k)
        result.tensor_origin[made[static_cast<std::ptrdiff_t>(k)]] =
            given[static_cast<std::ptrdiff_t>(k)];
    }
    return result;
  }

  const Problem p_;
  const OpGraph& graph_;
  const IdVector<OpId, DeviceId>& home_;
  const PipelineOptions options_;
  const ScheduleEntry& entry_;
  Stages stages_;
  Chunks chunks_;
  Schedule schedule_;
  std::array<Members, 5> members_;  // by PassKind
  OpGraphBuilder builder_;
  IdVector<OpId, Copy> copies_;
  std::set<std::pair<OpId, DeviceId>> held_;           // persistent bytes that are counted
  std::vector<std::vector<OpId>> copy_of_, again_of_;  // [micro_batches][num_ops] or no_op
  std::vector<DevicePass> passes_;                     // by device, in the order they run in
};

}  // namespace

Unrolled unroll(const Problem& problem, const Placement& placement,
                const PipelineOptions& options) {
  BAECHI_CHECK(options.micro_batches > 0, "no micro-batch");
  if (has_replicas(placement))
    throw InputError("no pipeline: its stages have one device each, and some here have replicas");
  return Unroller(problem, placement, options).make();
}

}  // namespace baechi::pipeline
