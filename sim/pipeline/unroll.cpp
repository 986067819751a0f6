#include "sim/pipeline/unroll.h"

#include "sim/error.h"
#include "sim/objective/replicas.h"
#include "sim/transform/training/gradients.h"

namespace baechi::pipeline {
namespace {

void check_phases(const OpGraph& graph, const ScheduleEntry& schedule) {
  bool linked = false;
  for (const EdgeId e : graph.edges()) {
    const Edge& edge = graph.edge(e);
    const bool from = is_forward(graph, edge.src), to = is_forward(graph, edge.dst);
    if (!from && to)
      throw InputError(fmt::format(
          "no pipeline: forward op '{}' reads from '{}', which is not of the forward pass",
          graph.name(edge.dst), graph.name(edge.src)));
    linked = linked || (from && is_backward(graph, edge.dst) && !serves(graph, edge.src));
  }
  if (linked || !schedule.training) return;
  const bool any = std::ranges::any_of(graph.ops(), [&](OpId v) { return is_backward(graph, v); });
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

/// Implements unroll(); ids of copies are the builder's.
class Unroller {
 public:
  Unroller(const Problem& p, const Placement& placement, const PipelineOptions& options)
      : p_(p),
        graph_(p.graph),
        placed_(placement),
        home_(placement.device),
        options_(options),
        entry_(entry(options)) {
    check_phases(graph_, entry_);
    for (const OpId v : graph_.ops()) {
      launches_.push_back(launches(graph_, v));
      serves_.push_back(serves(graph_, v));
      asked_.push_back(is_asked(graph_, v));
    }
    for (const TensorId t : graph_.tensors()) accumulates_.push_back(accumulates(t));
    c_.builder.names_are_unique();
    stages_ = make_stages(p, placement, entry_);
    chunks_ = chunks_of(p, placement, stages_, entry_);
    if (entry_.splits) split_weights(graph_, chunks_);
    join_served(p, placement, chunks_);
    schedule_ = entry_.make({.stages = stages_.count,
                             .laps = chunks_.laps,
                             .micro_batches = options.micro_batches,
                             .times = pass_times(p, placement, stages_, chunks_)});
    if (options.recompute && entry_.training)
      schedule_ = with_recompute(std::move(schedule_), options.keep_last);
    const std::size_t most = options.micro_batches * (options.recompute ? 2 : 1);
    c_.builder.reserve(most * graph_.num_ops(), most * graph_.num_tensors(),
                       most * graph_.num_edges());
    c_.copies.reserve(most * graph_.num_ops());
    first_copy_.assign(graph_.num_ops(), no_op);
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
    if (entry_.layout == Layout::two_way) exchange_gradients();
    for (DevicePass& pass : c_.passes) find_ends(pass);
    keep_order(c_, {p_, placed_, stages_, chunks_, schedule_});
    return build();
  }

 private:
  using Members = std::vector<std::vector<OpId>>;  // [chunks] ops of one kind of pass

  void find_members() {
    for (Members& members : members_) members.resize(schedule_.chunks);
    for (const OpId v : graph_.ops()) {
      members_[static_cast<std::size_t>(chunks_.pass[v])][chunks_.chunk[v]].push_back(v);
      if (chunks_.pass[v] == PassKind::forward)
        members_[static_cast<std::size_t>(PassKind::recompute)][chunks_.chunk[v]].push_back(v);
    }
  }

  /// Whether op `v` of a chunk of stage `s` runs on `d`: on its own device or, for the other
  /// direction of Layout::two_way, on the only device of the stage.
  bool runs_on(OpId v, std::size_t s, DeviceId d) const {
    return home_[v] == d || stages_.stage[home_[v]] != s;
  }

  void add_passes(DeviceId d) {
    const std::size_t s = stages_.stage[d];
    bool updated = false;  // the last pass is an update of another chunk of this device
    for (const Pass& pass : schedule_.passes[s]) {
      const bool updates = pass.kind == PassKind::update;
      if (!updates || !updated || c_.passes.back().pass.chunk == pass.chunk)
        c_.passes.push_back({pass, d});
      suffix_ =
          fmt::format("#{}{}", pass.micro_batch, pass.kind == PassKind::recompute ? " again" : "");
      for (const OpId v : members_[static_cast<std::size_t>(pass.kind)][pass.chunk])
        if (runs_on(v, s, d)) copy_op(v, pass);
      if (pass.kind == PassKind::backward && c_.passes.back().all.empty()) add_empty(pass);
      const bool empty = c_.passes.back().all.empty() && c_.passes.back().host.empty();
      if (updates && !empty) read_accumulated(c_.passes.back());
      if (empty) c_.passes.pop_back();
      updated = updates && !empty;
    }
  }

  void copy_op(OpId v, const Pass& pass) {
    const Op& op = graph_.op(v);
    DevicePass& in = c_.passes.back();
    const DeviceId d = in.device;
    const bool again = pass.kind == PassKind::recompute;
    Bytes persistent, added;
    for (const TensorId t : graph_.outputs(v))
      if (accumulates_[t] && sums_.contains({t, d})) added += graph_.tensor(t).size;
    if (!again && op.persistent > Bytes{} && held_.emplace(v, d).second)
      persistent = op.persistent + static_cast<int>(spare_versions(d)) * weights_of(op);
    const OpId copy = add(v, persistent, op.temporary + added);
    Copy& c = c_.copies[c_.copies.push_back({v, pass.micro_batch, d, c_.passes.size() - 1})];
    for (const TensorId t : graph_.outputs(v)) {
      if (graph_.instant(t)) continue;
      const Tensor& tensor = graph_.tensor(t);
      const bool adds = accumulates_[t] && sums_.contains({t, d});
      const TensorId made =
          c_.builder.add_tensor(copy, tensor.size, tensor.reference || tensor.control || adds);
      if (!adds && accumulates_[t]) sums_.emplace(std::pair(t, d), made);
      if (t == *graph_.outputs(v).begin()) c.first_output = made;
    }
    (launches_[v] ? in.host : in.all).push_back(copy);
    (again ? again_of_ : copy_of_)[pass.micro_batch][index(v)] = copy;
  }

  OpId add(OpId v, Bytes persistent, Bytes temporary) {
    name_.assign(graph_.name(v)).append(suffix_);
    OpId& first = first_copy_[v];
    if (first != no_op) return c_.builder.add_copy(first, name_, persistent, temporary);
    const Op& op = graph_.op(v);
    return first = c_.builder.add_op({.name = name_,
                                      .kind = graph_.kind(v),
                                      .compute = op.compute,
                                      .persistent = persistent,
                                      .temporary = temporary,
                                      .phase = op.phase,
                                      .lane = graph_.lanes()[index(op.lane)],
                                      .module = graph_.module(v),
                                      .cache = std::min(persistent, graph_.cache(v))});
  }

  /// Whether `t` is a gradient that a device accumulates in one tensor, that of the first
  /// micro-batch since the last update: later ones are computed in workspace and added to it.
  bool accumulates(TensorId t) const {
    return is_weight_gradient(graph_, t) && std::ranges::all_of(graph_.readers(t), [&](EdgeId e) {
             return home_[graph_.edge(e).dst] == home_[graph_.edge(e).src];
           });
  }

  /// The updates of a pass read the accumulated gradients.
  void read_accumulated(const DevicePass& pass) {
    std::vector<std::pair<TensorId, DeviceId>> read;
    for (const OpId copy : pass.all) {
      if (c_.copies[copy].origin == no_op) continue;
      for (const EdgeId e : graph_.in_edges(c_.copies[copy].origin)) {
        const TensorId t = graph_.edge(e).tensor;
        const auto sum = accumulates_[t] ? sums_.find({t, pass.device}) : sums_.end();
        if (sum == sums_.end()) continue;
        c_.builder.add_edge(sum->second, copy);
        read.push_back(sum->first);
      }
    }
    for (const auto& sum : read) sums_.erase(sum);
  }

  void add_empty(const Pass& pass) {
    const OpId made = c_.add_order(c_.passes.back().device);
    c_.passes.back().all.push_back(made);
    c_.copies[made].micro_batch = pass.micro_batch;
    c_.copies[made].pass = c_.passes.size() - 1;
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
        c_.builder.add_collective(c, members);
      else if (!members.empty())
        throw InputError(fmt::format("no pipeline: the {} of '{}' has members in different passes",
                                     to_text(c.kind), graph_.name(c.first)));
    }
  }

  void read(TensorId t, OpId from, OpId to) {
    Copy &a = c_.copies[from], &b = c_.copies[to];
    const bool from_host = launches_[a.origin], to_host = launches_[b.origin];
    if (a.pass != b.pass && to_host) {  // across passes, host ops are ordered by pass
      if (!from_host) c_.passes[a.pass].awaited.push_back(from);
      return;
    }
    if (asked_[a.origin] && a.device != b.device) {
      const auto [first, added] = c_.asked[from].by.try_emplace(b.device, b.pass);
      if (!added) first->second = std::min(first->second, b.pass);
    }
    if (a.pass == b.pass && from_host == to_host && !asked_[b.origin]) {
      a.read_by_own = true;
      b.reads_own |= !reduces_gradients(graph_, a.origin) && (to_host || !serves_[a.origin]);
      if (a.last_user == no_op || a.last_user < to) a.last_user = to;
    }
    if (graph_.instant(t)) return c_.builder.add_control(from, to);
    const std::size_t output = index(t) - index(*graph_.outputs(a.origin).begin());
    const auto tensor = static_cast<TensorId>(index(a.first_output) + output);
    if (asked_[b.origin] && !graph_.tensor(t).control) c_.asked[to].tensor = tensor;
    c_.builder.add_edge(tensor, to);
  }

  /// Layout::two_way: the two devices that hold a chunk reduce its gradients before the update,
  /// with one all_reduce per chunk that overlaps with the remaining passes.
  void exchange_gradients() {
    struct Sum {
      Bytes bytes{};
      std::vector<OpId> producers{}, updates{};
    };
    std::map<std::uint32_t, Sum> sums;  // by chunk
    for (const Gradient& g : gradients_of(graph_)) {
      Sum& sum = sums[chunks_.chunk[g.producer]];
      sum.bytes += g.bytes;
      sum.producers.push_back(g.producer);
      for (const AddedGradient& added : g.added) sum.producers.push_back(added.producer);
      sum.updates.insert(sum.updates.end(), g.updates.begin(), g.updates.end());
    }
    for (const auto& [chunk, sum] : sums) {
      std::vector<OpId> members;
      for (std::size_t k = 0; k < c_.passes.size(); ++k) {
        const DevicePass& pass = c_.passes[k];
        if (pass.pass.kind != PassKind::update) continue;
        const OpId any = sum.updates.front();
        const auto updated =
            std::ranges::find_if(pass.all, [&](OpId v) { return c_.copies[v].origin == any; });
        if (updated == pass.all.end()) continue;
        const auto& copy_of = copy_of_[c_.copies[*updated].micro_batch];
        const OpId member = c_.add_order(pass.device);
        c_.copies[member].pass = k;
        for (const OpId v : sum.producers) c_.builder.add_control(copy_of[index(v)], member);
        for (const OpId u : sum.updates) c_.builder.add_control(member, copy_of[index(u)]);
        members.push_back(member);
      }
      if (members.size() == 2) c_.builder.add_collective({.bytes = sum.bytes}, members);
    }
  }

  void find_ends(DevicePass& pass) const {
    for (const OpId v : pass.all) {
      if (c_.copies[v].origin != no_op && asked_[c_.copies[v].origin]) continue;
      if (!c_.copies[v].reads_own) pass.first.push_back(v);
      if (!c_.copies[v].read_by_own) pass.last.push_back(v);
    }
  }

  Unrolled build() {
    Unrolled result;
    result.stages = stages_;
    result.schedule = schedule_;
    IdVector<OpId, OpId> renumbered;
    result.graph = std::move(c_.builder).build(&renumbered).with_free_controls();
    const std::size_t n = result.graph.num_ops();
    result.origin = IdVector<OpId, OpId>(n, no_op);
    result.micro_batch = IdVector<OpId, std::uint32_t>(n);
    result.placement.device = IdVector<OpId, DeviceId>(n);
    const bool by_priority = !placed_.priority.empty();
    if (by_priority) result.placement.priority.assign(n, 0);
    result.tensor_origin = IdVector<TensorId, TensorId>(result.graph.num_tensors());
    for (const OpId v : c_.copies.ids()) {
      const Copy& c = c_.copies[v];
      const OpId now = renumbered[v];
      result.origin[now] = c.origin;
      result.micro_batch[now] = c.micro_batch;
      result.placement.device[now] = c.device;
      if (c.origin == no_op) continue;
      if (by_priority) result.placement.priority[now] = placed_.priority[c.origin];
      const auto made = result.graph.outputs(now), given = graph_.outputs(c.origin);
      for (std::size_t k = 0; k < std::min(made.size(), given.size()); ++k)
        result.tensor_origin[made[static_cast<std::ptrdiff_t>(k)]] =
            given[static_cast<std::ptrdiff_t>(k)];
    }
    return result;
  }

  const Problem p_;
  const OpGraph& graph_;
  const Placement& placed_;
  const IdVector<OpId, DeviceId>& home_;
  const PipelineOptions options_;
  const ScheduleEntry& entry_;
  IdVector<OpId, char> launches_, serves_, asked_;  // [num_ops]
  IdVector<TensorId, char> accumulates_;            // [num_tensors]
  std::string name_, suffix_;                       // of the next copy; of the names of its pass
  IdVector<OpId, OpId> first_copy_;                 // of each op; later ones use add_copy()
  Stages stages_;
  Chunks chunks_;
  Schedule schedule_;
  std::array<Members, 5> members_;  // by PassKind
  Copies c_;
  std::set<std::pair<OpId, DeviceId>> held_;                // persistent bytes already counted
  std::map<std::pair<TensorId, DeviceId>, TensorId> sums_;  // accumulated gradients, by tensor
  std::vector<std::vector<OpId>> copy_of_, again_of_;       // [micro_batches][num_ops] or no_op
};

}  // namespace

Duration UnrolledCosts::collective(const Collective& c, std::span<const DeviceId> devices) const {
  const OpId origin = unrolled_.origin[c.first];
  if (origin == no_op) return costs_.collective(c, devices);
  CachedTime& cached = cached_[origin];
  if (!std::ranges::equal(cached.devices, devices))
    cached = {{devices.begin(), devices.end()}, costs_.collective(c, devices)};
  return cached.time;
}

void check_graph(const OpGraph& graph, const PipelineOptions& options) {
  check_phases(graph, entry(options));
}

void refuse_replicas() {
  throw InputError(
      "no pipeline: stages must have one device each, and replicated ones have several");
}

Unrolled unroll(const Problem& problem, const Placement& placement,
                const PipelineOptions& options) {
  BAECHI_CHECK(options.micro_batches > 0, "no micro-batch");
  BAECHI_CHECK(placement.priority.empty() || placement.priority.size() == problem.graph.num_ops(),
               "{} of {} ops have a priority", placement.priority.size(), problem.graph.num_ops());
  if (has_replicas(placement)) refuse_replicas();
  return Unroller(problem, placement, options).make();
}

}  // namespace baechi::pipeline
