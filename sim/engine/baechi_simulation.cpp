#include "sim/engine/baechi_simulation.h"

#include <algorithm>

#include "sim/error.h"

namespace baechi {
namespace {

/// The op that is ready first, then the one with the lowest topological number.
class ReadyQueue {
 public:
  bool empty() const { return heap_.empty(); }
  void push(TimePoint ready, std::uint32_t topo, OpId op) {
    heap_.push_back(Key{static_cast<std::uint64_t>(ready.time_since_epoch().count())} << 64U |
                    Key{topo} << 32U | Key{static_cast<std::uint64_t>(op)});
    std::size_t hole = heap_.size() - 1;
    const Key key = heap_.back();
    for (; hole > 0 && key < heap_[(hole - 1) / ways]; hole = (hole - 1) / ways)
      heap_[hole] = heap_[(hole - 1) / ways];
    heap_[hole] = key;
  }
  OpId pop() {
    const Key top = heap_.front();
    const Key last = heap_.back();
    heap_.pop_back();
    if (!heap_.empty()) sink(last);
    return static_cast<OpId>(static_cast<std::uint32_t>(top));
  }

 private:
  __extension__ typedef unsigned __int128 Key;  // ready, topo, op: 64, 32, 32 bits
  // (a struct of three costs a branch per comparison)
  static constexpr std::size_t ways = 4;

  void sink(Key key) {
    std::size_t hole = 0;
    for (;;) {
      const std::size_t child = hole * ways + 1;
      if (child >= heap_.size()) break;
      std::size_t least = child;
      for (std::size_t c = child + 1; c < std::min(child + ways, heap_.size()); ++c) {
        if (heap_[c] < heap_[least]) least = c;
      }
      if (key <= heap_[least]) break;
      heap_[hole] = heap_[least];
      hole = least;
    }
    heap_[hole] = key;
  }

  std::vector<Key> heap_;
};

class Simulation {
 public:
  Simulation(const BaechiGraph& graph, const IdVector<OpId, DeviceId>& placement,
             std::size_t devices, BaechiLog* log, std::span<StepObserver* const> observers)
      : graph_(graph),
        placement_(placement),
        log_(log),
        observers_(observers),
        channels_(graph.num_tensors(), devices, log != nullptr),
        free_(devices),
        weights_(devices),
        used_(devices),
        ready_(graph.num_ops()),
        unmet_(graph.num_ops()),
        unread_(graph.num_ops()) {
    step_.result.devices.assign(devices, {});
  }

  BaechiStep run() {
    for (const OpId v : graph_.ops()) {
      unmet_[v] = static_cast<std::uint32_t>(graph_.in_edges(v).size());
      unread_[v] = static_cast<std::uint32_t>(graph_.out_edges(v).size());
      if (unmet_[v] == 0) queue_.push(TimePoint{}, graph_.op(v).topo, v);
    }
    std::size_t ran = 0;
    for (; !queue_.empty(); ++ran) run_op(queue_.pop());
    BAECHI_CHECK(ran == graph_.num_ops(), "{} of {} ops ran: a cycle", ran, graph_.num_ops());
    for (const TimePoint end : free_)
      step_.result.makespan = std::max(step_.result.makespan, end.time_since_epoch());
    step_.result.events = ran + step_.result.transfers;
    step_.final_memory = std::move(used_);
    return std::move(step_);
  }

 private:
  void run_op(OpId v) {
    const BaechiGraph::Op& op = graph_.op(v);
    const DeviceId d = placement_[v];
    const TimePoint start = std::max(free_[d], ready_[v]);
    const TimePoint end = start + op.compute;
    free_[d] = end;
    step_.result.devices[d].busy += op.compute;
    hold_memory(op, d, start);
    for (const EdgeId e : graph_.in_edges(v)) drop_reader(graph_.edge(e).src, start);
    if (log_ != nullptr) log_->on_op({v, d, ready_[v], start, end});
    for (StepObserver* o : observers_) o->on_op(v, d, start, end);
    for (const EdgeId e : graph_.out_edges(v)) {
      const OpId reader = graph_.edge(e).dst;
      const DeviceId to = placement_[reader];
      ready_[reader] = std::max(ready_[reader], to == d ? end : send(e, d, to, end));
      if (--unmet_[reader] == 0) queue_.push(ready_[reader], graph_.op(reader).topo, reader);
    }
  }

  /// When the last tensor of `e`, produced at `end`, is on `to`.
  TimePoint send(EdgeId e, DeviceId from, DeviceId to, TimePoint end) {
    TimePoint last{};
    for (const BaechiGraph::Send& s : graph_.sends(e)) {
      const bool cached = channels_.holds(to, s.tensor);
      if (cached) {
        last = std::max(last, channels_.arrival(to, s.tensor));
      } else {
        const BaechiBooking b = channels_.book(s.tensor, from, to, end, s.time);
        last = std::max(last, b.receive_end);
        ++step_.result.transfers;
        step_.result.moved += s.size;
        for (StepObserver* o : observers_)
          o->on_transfer(s.tensor, from, to, b.send_start, b.receive_end);
      }
      if (log_ != nullptr)
        log_->on_transfer({s, graph_.edge(e).src, graph_.edge(e).dst, from, to, cached,
                           channels_.booking(to, s.tensor)});
    }
    return last;
  }

  void hold_memory(const BaechiGraph::Op& op, DeviceId d, TimePoint now) {
    weights_[d] += op.persistent;
    used_[d] += op.outputs;
    note_peak(d, Bytes{});
    tell_memory(d, Bytes{}, now);
    if (op.temporary == Bytes{}) return;
    used_[d] += op.temporary;
    note_peak(d, op.temporary);
    tell_memory(d, op.temporary, now);
    used_[d] -= op.temporary;
    tell_memory(d, Bytes{}, now);
  }

  /// Q6: outputs go as their last reader starts, Q5: and leave the persistent bytes behind, with no
  /// regard to the peak; those of an op that nobody reads stay.
  void drop_reader(OpId producer, TimePoint now) {
    if (--unread_[producer] > 0) return;
    const DeviceId d = placement_[producer];
    used_[d] += graph_.op(producer).persistent - graph_.op(producer).outputs;
    tell_memory(d, Bytes{}, now);
  }

  void note_peak(DeviceId d, Bytes workspace) {
    DeviceUse& use = step_.result.devices[d];
    if (used_[d] <= use.peak) return;
    use.peak = used_[d];
    use.at_peak = by_kind(d, workspace);
  }

  MemoryUse by_kind(DeviceId d, Bytes workspace) const {
    return {{weights_[d], used_[d] - weights_[d] - workspace, Bytes{}, workspace}};
  }

  void tell_memory(DeviceId d, Bytes workspace, TimePoint now) {
    for (StepObserver* o : observers_) o->on_memory(d, by_kind(d, workspace), now);
  }

  const BaechiGraph& graph_;
  const IdVector<OpId, DeviceId>& placement_;
  BaechiLog* log_;
  std::span<StepObserver* const> observers_;

  BaechiChannels channels_;
  IdVector<DeviceId, TimePoint> free_;  // for computing
  IdVector<DeviceId, Bytes> weights_;   // persistent bytes of the ops that ran
  IdVector<DeviceId, Bytes> used_;
  IdVector<OpId, TimePoint> ready_;       // latest input so far
  IdVector<OpId, std::uint32_t> unmet_;   // in-edges whose src has not run
  IdVector<OpId, std::uint32_t> unread_;  // out-edges whose dst has not run
  ReadyQueue queue_;
  BaechiStep step_;
};

void require_cover(std::size_t ops, const IdVector<OpId, DeviceId>& placement,
                   std::size_t devices) {
  BAECHI_CHECK(placement.size() == ops, "placement of {} ops for {}", placement.size(), ops);
  for (const DeviceId d : placement)
    BAECHI_CHECK(index(d) < devices, "no device {} among {}", index(d), devices);
}

}  // namespace

BaechiStep simulate_baechi(const BaechiGraph& graph, const IdVector<OpId, DeviceId>& placement,
                           std::size_t devices, BaechiLog* log) {
  require_cover(graph.num_ops(), placement, devices);
  return Simulation(graph, placement, devices, log, {}).run();
}

StepResult simulate_baechi(const Problem& problem, const Placement& placement,
                           std::span<StepObserver* const> observers) {
  const std::size_t devices = problem.cluster.num_devices();
  require_cover(problem.graph.num_ops(), placement.device, devices);
  const BaechiGraph graph = BaechiGraph::from(problem.graph, problem.costs, problem.cluster);
  return Simulation(graph, placement.device, devices, nullptr, observers).run().result;
}

}  // namespace baechi
