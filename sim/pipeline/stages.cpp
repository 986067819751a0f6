#include "sim/error.h"
#include "sim/graph/analysis.h"
#include "sim/pipeline/unroll.h"

namespace baechi::pipeline {

bool is_forward(const OpGraph& graph, OpId v) { return graph.op(v).phase == Phase::forward; }
bool is_backward(const OpGraph& graph, OpId v) { return graph.op(v).phase == Phase::backward; }

bool launches(const OpGraph& graph, OpId v) {
  return on_host(graph, v) && graph.lanes()[index(graph.lane(v))] != host_pass_lane;
}

bool serves(const OpGraph& graph, OpId v) {
  if (launches(graph, v)) return true;
  if (graph.lane(v) == compute_lane) return false;  // no member of a collective
  const CollectiveId c = graph.collective_of(v);
  return c != no_collective && graph.op(v).phase != Phase::update &&
         graph.collectives()[c].kind == CollectiveKind::all_gather &&
         std::ranges::all_of(graph.in_edges(v),
                             [&](EdgeId e) { return graph.tensor(graph.edge(e).tensor).control; });
}

bool is_asked(const OpGraph& graph, OpId v) {
  return graph.lanes()[index(graph.lane(v))] == asked_lane;
}

bool reduces_gradients(const OpGraph& graph, OpId v) {
  return graph.op(v).phase == Phase::update && graph.collective_of(v) != no_collective &&
         !graph.in_edges(v).empty();
}

namespace {

/// Devices with ops, by first forward ops, then by first ops.
std::vector<DeviceId> used_devices(const Problem& p, const Placement& placement) {
  std::vector<DeviceId> used;
  IdVector<DeviceId, char> seen(p.cluster.num_devices(), false);
  for (const bool forward : {true, false}) {
    for (const OpId v : p.graph.ops()) {
      const DeviceId d = placement.device[v];
      if (is_forward(p.graph, v) == forward && !seen[d]) {
        seen[d] = true;
        used.push_back(d);
      }
    }
  }
  return used;
}

/// The transitive order of devices, by position in the list of used devices.
class Order {
 public:
  Order(const Problem& p, const Placement& placement, const std::vector<DeviceId>& used)
      : next_(used.size()), reached_(used.size(), std::vector<bool>(used.size(), false)) {
    IdVector<DeviceId, std::size_t> position(p.cluster.num_devices(), 0);
    for (std::size_t i = 0; i < used.size(); ++i) position[used[i]] = i;
    for (const EdgeId e : p.graph.edges()) {
      const Edge& edge = p.graph.edge(e);
      const std::size_t a = position[placement.device[edge.src]];
      const std::size_t b = position[placement.device[edge.dst]];
      if (a == b) continue;
      if (is_forward(p.graph, edge.src) && is_forward(p.graph, edge.dst)) next_[a].push_back(b);
      if (is_backward(p.graph, edge.src) && is_backward(p.graph, edge.dst)) next_[b].push_back(a);
    }
    for (std::vector<std::size_t>& readers : next_) {
      std::ranges::sort(readers);
      readers.erase(std::ranges::unique(readers).begin(), readers.end());
    }
    for (std::size_t i = 0; i < used.size(); ++i) reach(i, i);
  }

  bool before(std::size_t a, std::size_t b) const { return reached_[a][b]; }

 private:
  void reach(std::size_t from, std::size_t at) {
    for (const std::size_t b : next_[at]) {
      if (reached_[from][b]) continue;
      reached_[from][b] = true;
      reach(from, b);
    }
  }
  std::vector<std::vector<std::size_t>> next_;
  std::vector<std::vector<bool>> reached_;  // [used, used]
};

class ChunkFinder {
 public:
  ChunkFinder(const Problem& p, const Placement& placement, const Stages& stages,
              const ScheduleEntry& schedule)
      : p_(p),
        device_(placement.device),
        stages_(stages),
        schedule_(schedule),
        count_(static_cast<std::uint32_t>(stages.count)),
        last_(schedule.layout == Layout::vee ? 2 * count_ - 1 : 0) {}

  Chunks find() {
    const OpGraph& graph = p_.graph;
    chunks_ = {.chunk = IdVector<OpId, std::uint32_t>(graph.num_ops(), 0),
               .pass = IdVector<OpId, PassKind>(graph.num_ops(), PassKind::update)};
    const bool once = schedule_.layout == Layout::line || schedule_.layout == Layout::two_way;
    for (const OpId v : graph.ops()) {
      if (is_forward(graph, v)) chunks_.pass[v] = PassKind::forward;
      if (is_backward(graph, v)) chunks_.pass[v] = PassKind::backward;
      chunks_.chunk[v] = stage(v);
    }
    if (once) return std::move(chunks_);
    const std::vector<OpId> back = behind_the_turn();
    for (const OpId v : graph.ops())  // ids are topological
      if (is_forward(graph, v) && !serves(graph, v))
        chunks_.chunk[v] = forward_chunk(v, std::ranges::binary_search(back, v));
    for (const OpId v : graph.ops())
      if (is_backward(graph, v) && !serves(graph, v)) chunks_.chunk[v] = backward_chunk(v);
    chunks_.laps = (last_ + 1) / count_;
    return std::move(chunks_);
  }

 private:
  std::uint32_t stage(OpId v) const { return stages_.stage[device_[v]]; }
  std::uint32_t home(std::uint32_t chunk) const {
    return static_cast<std::uint32_t>(home_stage(schedule_.layout, chunk, count_));
  }

  /// The forward ops of the second chunk of Layout::vee's last stage: those whose middle is in the
  /// later half of the stage's time.
  std::vector<OpId> behind_the_turn() const {
    std::vector<OpId> ops;
    if (schedule_.layout != Layout::vee) return ops;
    Duration total{}, before{};
    for (const OpId v : p_.graph.ops()) {
      if (!is_forward(p_.graph, v) || serves(p_.graph, v) || stage(v) + 1 != count_) continue;
      ops.push_back(v);
      total += p_.costs.compute(v, device_[v]);
    }
    const auto first = std::ranges::find_if(ops, [&](OpId v) {
      const Duration time = p_.costs.compute(v, device_[v]);
      const bool later = 2 * before + time > total;
      before += time;
      return later;
    });
    return {first, ops.end()};
  }

  std::uint32_t forward_chunk(OpId v, bool behind_the_turn) {
    std::uint32_t chunk = behind_the_turn ? count_ : 0;
    for (const OpId u : p_.graph.predecessors(v)) chunk = std::max(chunk, chunks_.chunk[u]);
    while (home(chunk) != stage(v)) {
      ++chunk;
      if (schedule_.layout == Layout::vee && chunk > last_) no_chunk(v);
    }
    if (schedule_.layout == Layout::loop)
      last_ = std::max(last_, chunk / count_ * count_ + count_ - 1);
    return chunk;
  }

  std::uint32_t backward_chunk(OpId v) const {
    std::uint32_t chunk = std::min(last_, differentiated(v).value_or(last_));
    for (const OpId u : p_.graph.predecessors(v))
      if (is_backward(p_.graph, u) && !serves(p_.graph, u))
        chunk = std::min(chunk, chunks_.chunk[u]);
    while (home(chunk) != stage(v) && chunk > 0) --chunk;
    if (home(chunk) != stage(v)) no_chunk(v);
    return chunk;
  }

  /// The chunk on the device of `v` that the backward op `v` differentiates: that of its forward op
  /// or, if unknown, the last chunk of the forward pass from which it reads.
  std::optional<std::uint32_t> differentiated(OpId v) const {
    const OpId forward = p_.graph.op(v).forward;
    if (forward != no_op && device_[forward] == device_[v]) return chunks_.chunk[forward];
    std::optional<std::uint32_t> last;
    for (const OpId u : p_.graph.predecessors(v))
      if (is_forward(p_.graph, u) && device_[u] == device_[v])
        last = std::max(last.value_or(0), chunks_.chunk[u]);
    return last;
  }

  [[noreturn]] void no_chunk(OpId v) const {
    throw InputError(fmt::format(
        "{} needs a placement in which micro-batches pass the devices {}: op '{}' on {} does not "
        "fit",
        schedule_.name,
        schedule_.layout == Layout::vee ? "in order and then back" : "in order, again and again",
        p_.graph.name(v), p_.cluster.device(device_[v]).name));
  }

  const Problem p_;
  const IdVector<OpId, DeviceId>& device_;
  const Stages& stages_;
  const ScheduleEntry& schedule_;
  std::uint32_t count_;  // stages
  std::uint32_t last_;   // chunk
  Chunks chunks_;
};

}  // namespace

Stages devices_as_stages(const Problem& p, const Placement& placement) {
  Stages stages{.devices = used_devices(p, placement),
                .stage = IdVector<DeviceId, std::uint32_t>(p.cluster.num_devices(), no_stage)};
  for (const DeviceId d : stages.devices)
    stages.stage[d] = static_cast<std::uint32_t>(stages.count++);
  return stages;
}

Stages stages_of(const Problem& p, const Placement& placement) {
  const std::vector<DeviceId> used = used_devices(p, placement);
  const Order order(p, placement, used);
  Stages stages{.devices = {},
                .stage = IdVector<DeviceId, std::uint32_t>(p.cluster.num_devices(), no_stage)};
  const auto waits = [&](std::size_t i) {  // for a device that has no stage yet
    for (std::size_t a = 0; a < used.size(); ++a)
      if (stages.stage[used[a]] == no_stage && order.before(a, i) && !order.before(i, a))
        return true;
    return false;
  };
  while (stages.devices.size() < used.size()) {
    std::size_t first = 0;
    while (stages.stage[used[first]] != no_stage || waits(first)) ++first;
    for (std::size_t i = first; i < used.size(); ++i) {
      if (i != first && !(order.before(first, i) && order.before(i, first))) continue;
      stages.in_line &= i == first;
      stages.stage[used[i]] = static_cast<std::uint32_t>(stages.count);
      stages.devices.push_back(used[i]);
    }
    ++stages.count;
  }
  return stages;
}

Chunks chunks_of(const Problem& p, const Placement& placement, const Stages& stages,
                 const ScheduleEntry& schedule) {
  return ChunkFinder(p, placement, stages, schedule).find();
}

void split_weights(const OpGraph& graph, Chunks& chunks) {
  IdVector<OpId, char> read(graph.num_ops(), false);     // by a backward op
  IdVector<OpId, char> awaited(graph.num_ops(), false);  // by the backward pass of another chunk
  std::set<std::uint32_t> sending;                       // chunks with awaited ops
  for (std::size_t i = graph.num_ops(); i-- > 0;) {
    const auto v = static_cast<OpId>(i);
    if (!is_backward(graph, v) || serves(graph, v)) continue;
    for (const EdgeId e : graph.out_edges(v)) {
      const OpId reader = graph.edge(e).dst;
      if (!is_backward(graph, reader) || serves(graph, reader)) continue;
      read[v] = true;
      if (chunks.chunk[reader] != chunks.chunk[v] || awaited[reader]) awaited[v] = true;
    }
    if (awaited[v]) sending.insert(chunks.chunk[v]);
  }
  for (const OpId v : graph.ops())
    if (is_backward(graph, v) && !(sending.contains(chunks.chunk[v]) ? awaited[v] : read[v]))
      chunks.pass[v] = PassKind::weights;
}

std::vector<PassTimes> pass_times(const Problem& p, const Placement& placement,
                                  const Stages& stages, const Chunks& chunks) {
  const OpGraph& graph = p.graph;
  std::vector<PassTimes> times(stages.count * chunks.laps, {Duration{}, Duration{}, Duration{}});
  const auto device = [&](OpId v) { return placement.device[v]; };
  const auto add = [&](OpId v, Duration time) {
    PassTimes& of = times[chunks.chunk[v]];
    if (chunks.pass[v] == PassKind::forward) of.forward += time;
    if (chunks.pass[v] == PassKind::backward) of.backward += time;
    if (chunks.pass[v] == PassKind::weights) of.weights += time;
  };
  for (const OpId v : graph.ops())
    if (graph.lane(v) == compute_lane) add(v, p.costs.compute(v, device(v)));
  for (const Collective& c : graph.collectives()) {
    std::vector<DeviceId> devices;
    for (const OpId v : c.member_ids()) devices.push_back(device(v));
    add(c.first, p.costs.collective(c, devices));
  }
  for (const TensorId t : graph.tensors()) {
    const OpId from = graph.tensor(t).producer;
    std::set<DeviceId> sent{device(from)};
    for (const EdgeId e : graph.readers(t)) {
      const DeviceId to = device(graph.edge(e).dst);
      if (!sent.insert(to).second) continue;
      PassTimes& of = times[chunks.chunk[from]];
      (is_forward(graph, from) ? of.sends_forward : of.sends_backward) +=
          p.costs.transfer(t, device(from), to);
    }
  }
  return times;
}

void join_served(const Problem& p, const Placement& placement, Chunks& chunks) {
  const OpGraph& graph = p.graph;
  const auto before = [&](OpId a, OpId b) {
    if (chunks.pass[a] != chunks.pass[b]) return chunks.pass[a] < chunks.pass[b];
    return is_forward(graph, a) ? chunks.chunk[a] < chunks.chunk[b]
                                : chunks.chunk[a] > chunks.chunk[b];
  };
  for (const OpId v : graph.ops()) {
    if (!serves(graph, v)) continue;
    OpId first = no_op;
    for (const EdgeId e : graph.out_edges(v)) {
      const OpId reader = graph.edge(e).dst;
      if (serves(graph, reader)) continue;  // the next launch
      if (first == no_op) first = reader;
      const bool earlier = before(reader, first);
      if (launches(graph, v) &&
          (earlier || before(first, reader) || placement.device[reader] != placement.device[v]))
        throw InputError(
            fmt::format("no pipeline: '{}' of lane {} launches ops of several passes or devices",
                        graph.name(v), graph.lanes()[index(graph.lane(v))]));
      if (earlier) first = reader;
    }
    if (first == no_op) continue;
    chunks.chunk[v] = chunks.chunk[first];
    chunks.pass[v] = chunks.pass[first];
  }
}

}  // namespace baechi::pipeline
