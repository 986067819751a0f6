#include "tests/checker/schedule_checker.h"

#include "sim/error.h"
#include "tests/checker/schedule_checker_parts.h"

namespace baechi::testing {

std::string text(TimePoint t) { return fmt::format("{} ns", t.time_since_epoch().count()); }
std::string text(const Work& w) {
  if (!w.is_transfer)
    return fmt::format("op {} on {} at {}", index(w.op), index(w.dst), text(w.start));
  return fmt::format("transfer of {} from {} to {} at {}", index(w.tensor), index(w.src),
                     index(w.dst), text(w.start));
}

namespace {

// --- Each piece of work by itself
// ------------------------------------------------------------------

void check_op(const Matched& m, const Work& w, Faults& faults) {
  if (w.src != w.dst || w.dst != m.device_of(w.op)) faults.add("device: {}", text(w));
  const EngineOptions& engine = m.problem.engine;
  const double longest = m.member(w.op) ? engine.overlapped : engine.disturbed;
  const Duration time = w.end - w.start, alone = m.time_of(w.op);
  if (time != alone && (longest == 1.0 || time < alone))  // else check_order() knows the factor
    faults.add("duration: {}", text(w));
}

bool is_staged(const Matched& m) { return m.problem.engine.transfers == Transfers::staged; }

/// The time of a staged transfer on both channels: half of it, rounded down to a nanosecond, on the
/// outgoing one, the rest on the incoming one.
Duration moving_time(const Matched& m, const Work& w) {
  const CostModel& costs = m.problem.costs;
  return costs.transfer(w.tensor, w.src, w.dst) - costs.latency(w.tensor, w.src, w.dst);
}

void check_transfer(const Matched& m, const Work& w, Faults& faults) {
  const Tensor& tensor = m.problem.graph.tensor(w.tensor);
  if (w.op != tensor.producer || w.src != m.device_of(tensor.producer) || w.src == w.dst)
    faults.add("device: {}", text(w));
  else if (is_staged(m) ? w.end - w.start < moving_time(m, w)
                        : w.end - w.start != m.problem.costs.transfer(w.tensor, w.src, w.dst))
    faults.add("duration: {}", text(w));
}

void match_ops(Matched& m, Faults& faults) {
  const auto& [graph, cluster, costs, engine] = m.problem;
  m.op_work.assign(graph.num_ops(), no_work);
  for (std::size_t i = 0; i < m.run.work.size(); ++i) {
    const Work& w = m.run.work[i];
    if (w.is_transfer) continue;
    if (m.op_work[w.op] != no_work) faults.add("twice: {}", text(w));
    m.op_work[w.op] = i;
  }
  for (const OpId v : graph.ops()) {
    if (m.op_work[v] == no_work && !m.run.result.oom)
      faults.add("missing: op {} never ran", index(v));
  }
}

/// Assigns a transfer to every edge between devices. Without cache, the transfers of a tensor to a
/// device serve its edges there by id.
void match_transfers(Matched& m, Faults& faults) {
  const auto& [graph, cluster, costs, engine] = m.problem;
  m.edge_work.assign(graph.num_edges(), no_work);
  std::map<std::pair<TensorId, DeviceId>, std::vector<std::size_t>> sent;
  for (std::size_t i = 0; i < m.run.work.size(); ++i) {
    const Work& w = m.run.work[i];
    if (w.is_transfer) sent[{w.tensor, w.dst}].push_back(i);
  }
  std::map<std::pair<TensorId, DeviceId>, std::size_t> wanted;
  for (const EdgeId e : graph.edges()) {
    if (!m.remote(e)) continue;
    const std::pair to{graph.edge(e).tensor, m.device_of(graph.edge(e).dst)};
    std::size_t& n = wanted[to];
    if (!engine.cache_tensors || n == 0) ++n;
    if (n <= sent[to].size())
      m.edge_work[e] = sent[to][n - 1];
    else if (!m.run.result.oom)
      faults.add("missing: transfer of {} to {} for edge {}", index(to.first), index(to.second),
                 index(e));
  }
  for (const auto& [to, transfers] : sent) {
    if (transfers.size() > wanted[to])
      faults.add("too many: tensor {} was sent to {} {} times, wanted {} times", index(to.first),
                 index(to.second), transfers.size(), wanted[to]);
  }
}

void check_each(Matched& m, Faults& faults) {
  const auto& [graph, cluster, costs, engine] = m.problem;
  for (const Work& w : m.run.work) {
    if (w.start < TimePoint{} || w.end < w.start) faults.add("time: {}", text(w));
    if (index(w.op) >= graph.num_ops() || index(w.src) >= cluster.num_devices() ||
        index(w.dst) >= cluster.num_devices() ||
        (w.is_transfer && index(w.tensor) >= graph.num_tensors())) {
      faults.add("unknown: {}", text(w));
    } else if (w.is_transfer) {
      check_transfer(m, w, faults);
    } else {
      check_op(m, w, faults);
    }
  }
  if (!faults.empty()) return;
  match_ops(m, faults);
  match_transfers(m, faults);
}

// --- Pieces of work together
// -----------------------------------------------------------------------

void check_inputs(const Matched& m, Faults& faults) {
  const auto& work = m.run.work;
  const auto finished = [&](std::size_t i, TimePoint by) {
    return i != no_work && work[i].end <= by;
  };
  for (const Work& w : work) {
    if (w.is_transfer) {
      const Duration latency =
          is_staged(m) ? m.problem.costs.latency(w.tensor, w.src, w.dst) : Duration{};
      if (!finished(m.op_work[w.op], w.start - latency))
        faults.add("before its producer: {}", text(w));
      continue;
    }
    for (const EdgeId e : m.problem.graph.in_edges(w.op)) {
      const OpId producer = m.problem.graph.edge(e).src;
      if (!finished(m.remote(e) ? m.edge_work[e] : m.op_work[producer], w.start))
        faults.add("before its inputs: {}", text(w));
    }
  }
}

/// Checks that work of kind `a` does not overlap with work of kind `b`. Zero-length work overlaps
/// only inside other work.
void check_apart(const Matched& m, std::string_view what, auto a, auto b, Faults& faults) {
  std::vector<const Work*> all;
  for (const Work& w : m.run.work)
    if (a(w) || b(w)) all.push_back(&w);
  std::ranges::stable_sort(all, {}, [](const Work* w) { return std::pair(w->start, w->end); });
  const Work* last_a = nullptr;  // the one of kind a that ends last
  const Work* last_b = nullptr;
  for (const Work* w : all) {
    if (a(*w) && last_b != nullptr && w->start < last_b->end)
      faults.add("overlap ({}): {} and {}", what, text(*last_b), text(*w));
    else if (b(*w) && last_a != nullptr && w->start < last_a->end)
      faults.add("overlap ({}): {} and {}", what, text(*last_a), text(*w));
    if (a(*w) && (last_a == nullptr || w->end > last_a->end)) last_a = w;
    if (b(*w) && (last_b == nullptr || w->end > last_b->end)) last_b = w;
  }
}

/// Staged transfers: a device sends one and receives one at a time. Without overlap a sender
/// computes again once a tensor has left, a receiver once it has arrived.
void check_stages(const Matched& m, Faults& faults) {
  for (const DeviceId d : m.problem.cluster.devices()) {
    for (const bool out : {true, false}) {
      std::vector<std::pair<TimePoint, TimePoint>> spans;
      for (const Work& w : m.run.work) {
        if (!w.is_transfer || (out ? w.src : w.dst) != d) continue;
        const Duration first = moving_time(m, w) / 2;
        const Duration second = moving_time(m, w) - first;
        spans.push_back(out ? std::pair(w.start, w.start + first)
                            : std::pair(w.end - second, w.end));
      }
      std::ranges::sort(spans);
      for (const Work& w : m.run.work) {
        if (m.problem.engine.overlap || w.is_transfer || w.dst != d ||
            m.problem.graph.lane(w.op) != compute_lane)
          continue;
        for (const auto& [start, end] : spans)
          if (start < w.end && w.start < end)
            faults.add("overlap (computing while moving): {} at {}", text(w), text(start));
      }
      for (std::size_t i = 1; i < spans.size(); ++i)
        if (spans[i].first < spans[i - 1].second)
          faults.add("overlap (stage): two tensors {} device {} at {}", out ? "leave" : "reach",
                     index(d), text(spans[i].first));
    }
  }
}

void check_overlaps(const Matched& m, Faults& faults) {
  const EngineOptions& engine = m.problem.engine;
  for (const DeviceId d : m.problem.cluster.devices()) {
    const auto in_lane = [&m, d](LaneKind lane) {
      return [&m, d, lane](const Work& w) {
        return !w.is_transfer && w.dst == d && m.problem.graph.lane(w.op) == lane;
      };
    };
    const auto op = in_lane(compute_lane);
    const auto sends = [d](const Work& w) { return w.is_transfer && w.src == d; };
    const auto receives = [d](const Work& w) { return w.is_transfer && w.dst == d; };
    const auto moves = [&](const Work& w) { return sends(w) || receives(w); };
    for (std::size_t lane = 0; lane < m.problem.graph.lanes().size(); ++lane)
      check_apart(m, "lane", in_lane(static_cast<LaneKind>(lane)),
                  in_lane(static_cast<LaneKind>(lane)), faults);
    if (engine.transfers == Transfers::sequential) check_apart(m, "channel", moves, moves, faults);
    if (engine.transfers == Transfers::duplex) {
      check_apart(m, "channel", sends, sends, faults);
      check_apart(m, "channel", receives, receives, faults);
    }
    if (!engine.overlap && !is_staged(m))
      check_apart(m, "computing while moving", op, moves, faults);
    const auto meets = [&](const Work& w) {
      return !w.is_transfer && w.dst == d && m.member(w.op);
    };
    if (!engine.overlap) check_apart(m, "computing in a collective", op, meets, faults);
  }
  const auto any = [](const Work& w) { return w.is_transfer; };
  if (engine.transfers == Transfers::shared) check_apart(m, "bus", any, any, faults);
  if (is_staged(m)) check_stages(m, faults);
}

// --- Totals
// ------------------------------------------------------------------------------------------

/// Checks that busy time is the makespan without the idle gaps of lane "compute".
void check_busy(const Matched& m, Faults& faults) {
  const StepResult& result = m.run.result;
  const TimePoint last{result.makespan};
  for (const DeviceId d : m.problem.cluster.devices()) {
    Duration idle{};
    TimePoint free_from{};
    for (const Work& w : m.run.work) {
      if (w.is_transfer || w.dst != d || m.problem.graph.lane(w.op) != compute_lane) continue;
      idle += w.start - free_from;
      free_from = std::min(w.end, last);
    }
    idle += last - free_from;
    Duration in_collectives{};
    for (const Work& w : m.run.work)
      if (!w.is_transfer && w.dst == d && m.member(w.op))
        in_collectives += std::min(w.end, last) - w.start;
    if (result.devices[d].in_collectives != in_collectives)
      faults.add("collectives: {} ns on {}", result.devices[d].in_collectives.count(), index(d));
    if (result.devices[d].busy + idle != result.makespan)
      faults.add("busy: {} ns + {} ns idle on {}", result.devices[d].busy.count(), idle.count(),
                 index(d));
  }
}

void check_counts(const Matched& m, const Order& order, Faults& faults) {
  const StepResult& result = m.run.result;
  TimePoint last{};
  Bytes moved;
  std::size_t transfers = 0, ended = 0;
  for (std::size_t i = 0; i < m.run.work.size(); ++i) {
    const Work& w = m.run.work[i];
    last = std::max(last, w.end);
    if (order.ended[i] != never) ++ended;
    if (!w.is_transfer) continue;
    ++transfers;
    moved += m.problem.graph.tensor(w.tensor).size;
  }
  if (result.oom) last = result.oom->at;
  if (TimePoint{result.makespan} != last)
    faults.add("makespan: the last event is at {}", text(last));
  if (result.moved != moved) faults.add("counts: {} B moved", moved.count);
  if (result.transfers != transfers) faults.add("counts: {} transfers", transfers);
  if (result.events != ended) faults.add("counts: {} events", ended);
}

/// Checks the makespan against the longest path, with transfers, and the most work of one device.
void check_bounds(const Matched& m, Faults& faults) {
  const auto& [graph, cluster, costs, engine] = m.problem;
  IdVector<OpId, Duration> path(graph.num_ops());
  IdVector<DeviceId, Duration> work(cluster.num_devices());
  for (const OpId v : graph.ops()) {
    for (const EdgeId e : graph.in_edges(v)) {
      const Edge& edge = graph.edge(e);
      Duration before = path[edge.src];
      if (m.remote(e)) before += costs.transfer(edge.tensor, m.device_of(edge.src), m.device_of(v));
      path[v] = std::max(path[v], before);
    }
    path[v] += m.time_of(v);
    if (graph.lane(v) == compute_lane) work[m.device_of(v)] += m.time_of(v);
    if (path[v] > m.run.result.makespan) faults.add("bound: a path takes longer than the run");
  }
  for (const Duration w : work)
    if (w > m.run.result.makespan) faults.add("bound: a device's work takes longer than the run");
}

class Recorder final : public StepObserver {
 public:
  Recorder(const OpGraph& graph, RecordedRun& run) : graph_(graph), run_(run) {}
  void on_op(OpId v, DeviceId d, TimePoint start, TimePoint end) override {
    run_.work.push_back({.op = v, .src = d, .dst = d, .start = start, .end = end});
  }
  void on_transfer(TensorId t, DeviceId src, DeviceId dst, TimePoint start,
                   TimePoint end) override {
    run_.work.push_back({.is_transfer = true,
                         .op = graph_.tensor(t).producer,
                         .tensor = t,
                         .src = src,
                         .dst = dst,
                         .start = start,
                         .end = end});
  }
  void on_memory(DeviceId d, const MemoryUse& use, TimePoint at) override {
    run_.memory.push_back({d, use, at});
  }

 private:
  const OpGraph& graph_;
  RecordedRun& run_;
};

}  // namespace

RecordedRun record(const Problem& problem, const Placement& placement) {
  RecordedRun run;
  Recorder recorder(problem.graph, run);
  StepObserver* const observers[] = {&recorder};
  run.result = simulate(problem, placement, observers);
  return run;
}

std::vector<std::string> faults(const Problem& problem, const Placement& placement,
                                const RecordedRun& run) {
  BAECHI_CHECK(problem.engine.semantics == Semantics::event, "only event runs can be checked");
  if (run.result.devices.size() != problem.cluster.num_devices())
    return {"result: not one entry per device"};
  Faults faults;
  Matched m{problem, placement, run};
  check_each(m, faults);
  if (!faults.empty()) return faults.list();
  check_inputs(m, faults);
  check_overlaps(m, faults);
  if (!faults.empty()) return faults.list();
  if (is_staged(m)) {  // the record does not show when a tensor has left its sender
    check_order(m, faults);
    if (faults.empty()) check_busy(m, faults);
    if (!run.result.oom) check_bounds(m, faults);
    return faults.list();
  }
  const Order order = check_order(m, faults);
  if (!faults.empty()) return faults.list();
  check_memory(m, order, faults);
  check_counts(m, order, faults);
  check_busy(m, faults);
  if (!run.result.oom) check_bounds(m, faults);
  return faults.list();
}

}  // namespace baechi::testing
