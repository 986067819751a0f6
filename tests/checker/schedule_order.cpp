#include <cmath>
#include <set>
#include <tuple>

#include "tests/checker/schedule_checker_parts.h"

namespace baechi::testing {
namespace {

class OrderCheck {
 public:
  OrderCheck(const Matched& m, Faults& faults)
      : m_(m),
        graph_(m.problem.graph),
        engine_(m.problem.engine),
        work_(m.run.work),
        faults_(faults),
        devices_(m.problem.cluster.num_devices()),
        nodes_(m.problem.cluster.num_nodes()),
        unmet_(graph_.num_ops()),
        missing_(graph_.collectives().size()) {
    for (DeviceState& d : devices_) d.lanes.resize(graph_.lanes().size());
    for (const CollectiveId c : missing_.ids()) missing_[c] = graph_.collectives()[c].members;
    order_.started.assign(work_.size(), never);
    order_.ended.assign(work_.size(), never);
  }

  Order run() {
    for (const OpId v : graph_.ops()) {
      unmet_[v] = graph_.in_edges(v).size();
      if (engine_.queue == ReadyOrder::program) lane_of(v).program.push_back(v);
    }
    for (const OpId v : graph_.ops())
      if (unmet_[v] == 0) make_ready(v);
    for (;;) {
      while (!events_[now_].empty())  // an event may add others at the same instant
        for (const auto& event : std::exchange(events_[now_], {})) event();
      events_.erase(now_);
      if (staged()) receive_all();
      start_transfers();
      start_ops();
      start_collectives();
      if (!going_on()) return order_;
      const TimePoint next = events_.empty() ? TimePoint::max() : events_.begin()->first.time;
      if (reported_ < work_.size() && told_at(work_[reported_]) < next) {
        faults_.add("order: nothing more may start at {}, but {} did", text(now_.time),
                    text(work_[reported_]));
        return order_;
      }
      if (events_.empty()) break;
      now_ = events_.begin()->first;
    }
    if (m_.run.result.oom) faults_.add("verdict: out of memory, but nothing was refused");
    return order_;
  }

 private:
  /// The sort key of a waiting transfer in its sender's queue; the edge distinguishes uncached
  /// copies.
  using Due = std::tuple<TimePoint, TensorId, DeviceId, EdgeId>;
  /// The sort key of a ready op in its lane's queue: minus its priority, time of becoming ready,
  /// id.
  using Ready = std::tuple<std::int64_t, TimePoint, OpId>;
  struct LaneState {
    std::set<Ready> ready{};
    std::vector<OpId> program{};  // in program order only: the ops that have not ended
    bool busy = false;
  };
  struct DeviceState {
    std::vector<LaneState> lanes{};
    std::set<Due> due{};
    int sending = 0, receiving = 0, in_collectives = 0;
    std::set<std::pair<TimePoint, Due>>
        in_host{};           // staged, to this device, by arrival in the host
    bool coming_in = false;  // staged: receiving from host memory
    bool computing() const { return lanes.front().busy; }
  };
  struct NodeState {
    int sending = 0, receiving = 0;  // to and from other nodes
  };

  LaneState& lane_of(OpId v) { return devices_[m_.device_of(v)].lanes[index(graph_.lane(v))]; }
  bool next_in_program(OpId v) {
    return engine_.queue != ReadyOrder::program || lane_of(v).program.front() == v;
  }

  bool staged() const { return engine_.transfers == Transfers::staged; }
  /// A staged transfer is reported when its second half starts.
  TimePoint told_at(const Work& w) const {
    return staged() && w.is_transfer ? w.end - second_half(w.tensor, w.src, w.dst) : w.start;
  }
  Duration latency(TensorId t, DeviceId src, DeviceId dst) const {
    return m_.problem.costs.latency(t, src, dst);
  }
  Duration first_half(TensorId t, DeviceId src, DeviceId dst) const {
    return (m_.problem.costs.transfer(t, src, dst) - latency(t, src, dst)) / 2;
  }
  Duration second_half(TensorId t, DeviceId src, DeviceId dst) const {
    return m_.problem.costs.transfer(t, src, dst) - latency(t, src, dst) - first_half(t, src, dst);
  }

  /// Zero-length work ends in a further round of its instant.
  void at(TimePoint time, std::function<void()> event) {
    events_[time > now_.time ? Stamp{time, 0} : Stamp{now_.time, now_.round + 1}].push_back(
        std::move(event));
  }

  /// Starts the second halves of staged transfers: on each device whose channel is free, of the one
  /// that has been in host memory longest.
  void receive_all() {
    for (const DeviceId dst : devices_.ids()) {
      DeviceState& r = devices_[dst];
      if (!going_on() || r.coming_in || r.in_host.empty()) continue;
      const Due due = r.in_host.begin()->second;
      r.in_host.erase(r.in_host.begin());
      r.coming_in = true;
      const TensorId t = std::get<TensorId>(due);
      const DeviceId src = m_.device_of(graph_.tensor(t).producer);
      start({.is_transfer = true,
             .op = graph_.tensor(t).producer,
             .tensor = t,
             .src = src,
             .dst = dst,
             .start = sent_.at(due),
             .end = now_.time + second_half(t, src, dst)});
    }
  }

  /// The first half of a staged transfer, which is not reported.
  void send_staged(const Due& due, DeviceId src) {
    const auto [produced, tensor, dst, edge] = due;
    if (const auto& oom = m_.run.result.oom; oom && reported_ == work_.size() &&
                                             oom->at == now_.time && oom->transfer == tensor &&
                                             oom->device == dst) {
      order_.refused = {.is_transfer = true, .tensor = tensor, .src = src, .dst = dst};
      return;
    }
    sent_[due] = now_.time;
    at(now_.time + first_half(tensor, src, dst), [this, due, src] {
      --devices_[src].sending;
      devices_[std::get<DeviceId>(due)].in_host.insert({now_.time, due});
    });
  }

  bool going_on() const { return faults_.empty() && !order_.refused; }

  void make_ready(OpId v) {
    if (!next_in_program(v)) return;
    if (const CollectiveId c = graph_.collective_of(v); c != no_collective) {
      if (--missing_[c] == 0) gathered_.insert({now_.time, c});
      return;
    }
    Ready ready{0, now_.time, v};
    if (engine_.queue == ReadyOrder::priority) {
      const auto& priority = m_.placement.priority;
      ready = {priority.empty() ? 0 : -std::int64_t{priority[v]}, TimePoint{}, v};
    }
    lane_of(v).ready.insert(ready);
  }
  void input_arrived(OpId v) {
    if (--unmet_[v] == 0) make_ready(v);
  }

  void end(std::size_t i) {
    const Work& w = work_[i];
    order_.ended[i] = now_;
    if (w.is_transfer) {
      if (staged())
        devices_[w.dst].coming_in = false;
      else
        --devices_[w.src].sending;
      --devices_[w.dst].receiving;
      count_nics(w.src, w.dst, -1);
      for (const EdgeId e : graph_.readers(w.tensor))
        if (m_.edge_work[e] == i) input_arrived(graph_.edge(e).dst);
      return;
    }
    lane_of(w.op).busy = false;
    if (m_.member(w.op)) --devices_[w.dst].in_collectives;
    std::set<std::pair<TensorId, DeviceId>> sent;
    for (const EdgeId e : graph_.out_edges(w.op)) {
      const Edge& edge = graph_.edge(e);
      const DeviceId dst = m_.device_of(edge.dst);
      if (!m_.remote(e))
        input_arrived(edge.dst);
      else if (sent.insert({edge.tensor, dst}).second || !engine_.cache_tensors)
        post({now_.time, edge.tensor, dst, e}, w.dst);
    }
    if (engine_.queue != ReadyOrder::program) return;
    std::vector<OpId>& program = lane_of(w.op).program;
    program.erase(program.begin());
    if (!program.empty() && unmet_[program.front()] == 0) make_ready(program.front());
  }

  /// A tensor is due at once, a staged one after its latency.
  void post(const Due& due, DeviceId src) {
    const Duration wait =
        staged() ? latency(std::get<TensorId>(due), src, std::get<DeviceId>(due)) : Duration{};
    if (wait == Duration{})
      devices_[src].due.insert(due);
    else
      at(now_.time + wait, [this, due, src] { devices_[src].due.insert(due); });
  }

  /// Starts, in the order of (production, tensor, receiver), each transfer that is first in its
  /// sender's queue and has free channels and, without overlap, no computing end.
  void start_transfers() {
    std::set<DeviceId> stuck;
    while (going_on()) {
      const Due* first = nullptr;
      for (const DeviceId d : devices_.ids()) {
        const std::set<Due>& due = devices_[d].due;
        if (stuck.contains(d) || due.empty()) continue;
        if (first == nullptr || *due.begin() < *first) first = &*due.begin();
      }
      if (first == nullptr) return;
      const auto [produced, tensor, dst, edge] = *first;
      const DeviceId src = m_.device_of(graph_.tensor(tensor).producer);
      if (!may_move(src, dst)) {
        stuck.insert(src);
        continue;
      }
      devices_[src].due.erase(devices_[src].due.begin());
      ++devices_[src].sending;
      ++devices_[dst].receiving;
      count_nics(src, dst, 1);
      if (staged()) {
        send_staged({produced, tensor, dst, edge}, src);
        continue;
      }
      start({.is_transfer = true,
             .op = graph_.tensor(tensor).producer,
             .tensor = tensor,
             .src = src,
             .dst = dst,
             .start = now_.time});
    }
  }

  bool between_nodes(DeviceId src, DeviceId dst) const {
    const Cluster& cluster = m_.problem.cluster;
    return cluster.num_nodes() > 0 && cluster.node_of(src) != cluster.node_of(dst);
  }
  void count_nics(DeviceId src, DeviceId dst, int change) {
    if (!between_nodes(src, dst)) return;
    nodes_[m_.problem.cluster.node_of(src)].sending += change;
    nodes_[m_.problem.cluster.node_of(dst)].receiving += change;
  }
  /// A NIC of each node is free.
  bool nics_free(DeviceId src, DeviceId dst) const {
    if (engine_.transfers == Transfers::parallel || !between_nodes(src, dst)) return true;
    const Cluster& cluster = m_.problem.cluster;
    const NodeId from = cluster.node_of(src), to = cluster.node_of(dst);
    return nodes_[from].sending < static_cast<int>(cluster.node(from).nics) &&
           nodes_[to].receiving < static_cast<int>(cluster.node(to).nics);
  }

  bool may_move(DeviceId src, DeviceId dst) const {
    const DeviceState& s = devices_[src];
    const DeviceState& r = devices_[dst];
    if (!engine_.overlap && (s.computing() || r.computing())) return false;
    if (!nics_free(src, dst)) return false;
    switch (engine_.transfers) {
      case Transfers::parallel:
        return true;
      case Transfers::sequential:
        return s.sending + s.receiving + r.sending + r.receiving == 0;
      case Transfers::duplex:
        return s.sending + r.receiving == 0;
      case Transfers::staged:
        return s.sending == 0;
      case Transfers::shared:
        return std::ranges::none_of(devices_, [](const DeviceState& d) { return d.sending > 0; });
    }
    return false;
  }

  /// Starts, by device and lane, the first op of each free lane's queue; without overlap, in lane
  /// "compute", only if the device moves no tensor and runs no collective.
  void start_ops() {
    for (const DeviceId d : devices_.ids()) {
      DeviceState& device = devices_[d];
      for (LaneState& lane : device.lanes) {
        if (!going_on()) return;
        if (lane.busy || lane.ready.empty()) continue;
        const bool computes = &lane == &device.lanes.front();
        const int moves = device.sending + device.receiving + device.in_collectives;
        if (!engine_.overlap && computes && moves > 0) continue;
        const OpId v = std::get<OpId>(*lane.ready.begin());
        lane.ready.erase(lane.ready.begin());
        lane.busy = true;
        const Duration time = stretched(
            m_.time_of(v), computes && device.in_collectives > 0 ? engine_.disturbed : 1.0);
        start({.op = v, .src = d, .dst = d, .start = now_.time, .end = now_.time + time});
      }
    }
  }

  /// Starts, in the order of (arrival of the last member, id), each collective with free lanes.
  void start_collectives() {
    for (auto it = gathered_.begin(); it != gathered_.end();) {
      const Collective& c = graph_.collectives()[it->second];
      bool free = true, beside_op = false;
      for (const OpId v : c.member_ids()) {
        free = free && !lane_of(v).busy;
        beside_op = beside_op || devices_[m_.device_of(v)].computing();
      }
      if (!free || (beside_op && !engine_.overlap)) {
        ++it;
        continue;
      }
      const TimePoint end =
          now_.time + stretched(m_.time_of(c.first), beside_op ? engine_.overlapped : 1.0);
      const auto& oom = m_.run.result.oom;  // any member may lack memory
      if (reported_ == work_.size() && oom && graph_.collective_of(oom->op) == it->second)
        return start({.op = oom->op, .src = oom->device, .dst = oom->device, .start = now_.time});
      for (const OpId v : c.member_ids()) {
        const DeviceId d = m_.device_of(v);
        if (!going_on()) return;
        lane_of(v).busy = true;
        ++devices_[d].in_collectives;
        start({.op = v, .src = d, .dst = d, .start = now_.time, .end = end});
      }
      it = gathered_.erase(it);
    }
  }

  static Duration stretched(Duration time, double factor) {
    return Duration{std::llround(static_cast<double>(time.count()) * factor)};
  }

  /// `expected` must be the next report, or the request that failed.
  void start(const Work& expected) {
    if (reported_ == work_.size()) {
      if (m_.run.result.oom && m_.run.result.oom->at == now_.time)
        order_.refused = expected;
      else
        faults_.add("order: {} must start, but nothing did", text(expected));
      return;
    }
    const Work& told = work_[reported_];
    if (told.is_transfer != expected.is_transfer || told.op != expected.op ||
        told.tensor != expected.tensor || told.dst != expected.dst ||
        told.start != expected.start ||
        ((!told.is_transfer || staged()) && told.end != expected.end)) {
      faults_.add("order: {} must start, but {} did", text(expected), text(told));
      return;
    }
    order_.started[reported_] = now_;
    at(told.end, [this, i = reported_] { end(i); });
    ++reported_;
  }

  const Matched& m_;
  const OpGraph& graph_;
  const EngineOptions engine_;
  const std::vector<Work>& work_;
  Faults& faults_;
  Order order_;

  Stamp now_{};
  std::size_t reported_ = 0;  // number of elements of work_ already matched
  std::map<Stamp, std::vector<std::function<void()>>> events_;
  std::map<Due, TimePoint> sent_;  // staged: the start of the first half
  IdVector<DeviceId, DeviceState> devices_;
  IdVector<NodeId, NodeState> nodes_;
  IdVector<OpId, std::size_t> unmet_;
  IdVector<CollectiveId, std::uint32_t> missing_;  // members that have not arrived
  std::set<std::pair<TimePoint, CollectiveId>> gathered_;
};

}  // namespace

Order check_order(const Matched& m, Faults& faults) { return OrderCheck(m, faults).run(); }

}  // namespace baechi::testing
