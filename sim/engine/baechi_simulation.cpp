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
    Key* const heap = heap_.data();
    const std::size_t size = heap_.size();
    std::size_t hole = 0;
    for (std::size_t child = 1; child < size; child = ways * hole + 1) {
      std::size_t least = child;
      if (child + ways <= size) {  // by selection: branches would often be foreseen wrongly
        const std::size_t a = heap[child + 1] < heap[child] ? child + 1 : child;
        const std::size_t b = heap[child + 3] < heap[child + 2] ? child + 3 : child + 2;
        least = heap[b] < heap[a] ? b : a;
      } else {
        for (std::size_t c = child + 1; c < size; ++c) least = heap[c] < heap[least] ? c : least;
      }
      if (key <= heap[least]) break;
      heap[hole] = heap[least];
      hole = least;
    }
    heap[hole] = key;
  }

  std::vector<Key> heap_;
};

}  // namespace

class BaechiSimulator::Simulation {
 public:
  Simulation(const BaechiGraph& graph, std::size_t devices)
      : graph_(graph),
        channels_(devices),
        num_devices_(devices),
        sent_(graph.num_slots() * devices),
        ops_(graph.num_ops()) {}

  const BaechiStep& run(const IdVector<OpId, DeviceId>& placement, BaechiLog* log,
                        std::span<StepObserver* const> observers,
                        const IdVector<DeviceId, Bytes>& held) {
    log_ = log;
    observers_ = observers;
    reset(held);
    for (const OpId v : graph_.ops()) {
      OpState& op = ops_[v];
      op = {.ready = TimePoint{},
            .unmet = static_cast<std::uint32_t>(graph_.in_edges(v).size()),
            .unread = static_cast<std::uint32_t>(graph_.out_edges(v).size()),
            .topo = graph_.op(v).topo,
            .device = placement[v]};
      if (op.unmet == 0) queue_.push(op.ready, op.topo, v);
    }
    std::size_t ran = 0;
    for (; !queue_.empty(); ++ran) run_op(queue_.pop());
    BAECHI_CHECK(ran == graph_.num_ops(), "{} of {} ops ran: a cycle", ran, graph_.num_ops());
    for (const TimePoint end : free_)
      step_.result.makespan = std::max(step_.result.makespan, end.time_since_epoch());
    step_.result.events = ran + step_.result.transfers;
    step_.final_memory = used_;
    return step_;
  }

 private:
  void reset(const IdVector<DeviceId, Bytes>& held) {
    channels_ = BaechiChannels(num_devices_);
    std::ranges::fill(sent_, Sent{});
    free_.assign(num_devices_, {});
    weights_.assign(num_devices_, {});
    used_.assign(num_devices_, {});
    if (!held.empty()) used_ = held;
    step_.result.devices.assign(num_devices_, {});
    step_.result.makespan = {};
    step_.result.moved = {};
    step_.result.transfers = 0;
  }

  struct OpState {
    TimePoint ready{};         // latest input so far
    std::uint32_t unmet = 0;   // in-edges whose src has not run
    std::uint32_t unread = 0;  // out-edges whose dst has not run
    std::uint32_t topo = 0;
    DeviceId device{};
  };
  struct Sent {
    TensorId tensor{~std::uint32_t{0}};
    BaechiBooking booking;
  };

  void run_op(OpId v) {
    const BaechiGraph::Op& op = graph_.op(v);
    const auto [ready, unmet, unread, topo, d] = ops_[v];
    const TimePoint start = std::max(free_[d], ready);
    const TimePoint end = start + op.compute;
    free_[d] = end;
    step_.result.devices[d].busy += op.compute;
    hold_memory(op, d, start);
    for (const OpId u : graph_.predecessors(v)) {
      if (--ops_[u].unread == 0) release_outputs(u, start);
    }
    if (log_ != nullptr) log_->on_op({v, d, ready, start, end});
    for (StepObserver* o : observers_) o->on_op(v, d, start, end);
    for (const EdgeId e : graph_.out_edges(v)) {
      OpState& reader = ops_[graph_.edge(e).dst];
      reader.ready =
          std::max(reader.ready, reader.device == d ? end : send(e, d, reader.device, end));
      if (--reader.unmet == 0) queue_.push(reader.ready, reader.topo, graph_.edge(e).dst);
    }
  }

  /// When the last tensor of `e`, produced at `end`, is on `to`.
  TimePoint send(EdgeId e, DeviceId from, DeviceId to, TimePoint end) {
    TimePoint last{};
    for (const BaechiGraph::Send& s : graph_.sends(e)) {
      Sent& sent = sent_[s.slot * num_devices_ + index(to)];
      const bool cached = sent.tensor == s.tensor;
      if (!cached) {
        sent = {s.tensor, channels_.book(from, to, end, s.time)};
        ++step_.result.transfers;
        step_.result.moved += s.size;
        for (StepObserver* o : observers_)
          o->on_transfer(s.tensor, from, to, sent.booking.send_start, sent.booking.receive_end);
      }
      last = std::max(last, sent.booking.receive_end);
      if (log_ != nullptr)
        log_->on_transfer(
            {s, graph_.edge(e).src, graph_.edge(e).dst, from, to, cached, sent.booking});
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
  void release_outputs(OpId producer, TimePoint now) {
    const DeviceId d = ops_[producer].device;
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
  BaechiLog* log_ = nullptr;
  std::span<StepObserver* const> observers_;

  BaechiChannels channels_;
  std::size_t num_devices_;
  std::vector<Sent> sent_;              // [num_slots, num_devices], the last booked of each slot
  IdVector<DeviceId, TimePoint> free_;  // for computing
  IdVector<DeviceId, Bytes> weights_;   // persistent bytes of the ops that ran
  IdVector<DeviceId, Bytes> used_;
  IdVector<OpId, OpState> ops_;
  ReadyQueue queue_;
  BaechiStep step_;
};

BaechiSimulator::BaechiSimulator(const BaechiGraph& graph, std::size_t devices)
    : simulation_(std::make_unique<Simulation>(graph, devices)) {}
BaechiSimulator::~BaechiSimulator() = default;
BaechiSimulator::BaechiSimulator(BaechiSimulator&&) noexcept = default;

const BaechiStep& BaechiSimulator::run(const IdVector<OpId, DeviceId>& placement, BaechiLog* log,
                                       std::span<StepObserver* const> observers,
                                       const IdVector<DeviceId, Bytes>& held) {
  return simulation_->run(placement, log, observers, held);
}

BaechiStep simulate_baechi(const BaechiGraph& graph, const IdVector<OpId, DeviceId>& placement,
                           std::size_t devices, BaechiLog* log,
                           const IdVector<DeviceId, Bytes>& held) {
  BAECHI_CHECK(placement.size() == graph.num_ops(), "placement of {} ops for {}", placement.size(),
               graph.num_ops());
  for (const DeviceId d : placement)
    BAECHI_CHECK(index(d) < devices, "no device {} among {}", index(d), devices);
  BAECHI_CHECK(held.empty() || held.size() == devices, "{} of {} devices hold something",
               held.size(), devices);
  return BaechiSimulator(graph, devices).run(placement, log, {}, held);
}

}  // namespace baechi
