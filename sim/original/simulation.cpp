#include "sim/original/simulation.h"

#include "sim/error.h"

namespace baechi::original {
namespace {

/// Ready ops in the order of (ready time, topological number), a 4-ary heap. A Key holds both and
/// is as wide as the longest step of the graph needs: 64 bits nearly always suffice, and save a
/// fifth of all instructions (369 per op, not 457).
template <class Key>
class ReadyQueue {
 public:
  /// `topo_bits`: bits of the largest topological number.
  explicit ReadyQueue(int topo_bits) : topo_bits_(topo_bits) {}

  bool empty() const { return size_ == 0; }

  void push(TimePoint ready, std::uint32_t topo) {
    const Key key = static_cast<Key>(ready.time_since_epoch().count()) << topo_bits_ | topo;
    std::size_t hole = size_++;
    if (heap_.size() < size_ + arity) heap_.resize(2 * (size_ + arity), none);
    for (; hole > 0 && key < heap_[(hole - 1) / arity]; hole = (hole - 1) / arity)
      heap_[hole] = heap_[(hole - 1) / arity];
    heap_[hole] = key;
  }

  /// Removes the first op and returns its topological number.
  std::uint32_t pop() {
    const Key top = heap_.front();
    const Key last = std::exchange(heap_[--size_], none);
    if (size_ > 0) sink(last);
    return static_cast<std::uint32_t>(top & ((Key{1} << topo_bits_) - 1));
  }

 private:
  static constexpr std::size_t arity = 4;
  static constexpr Key none = ~Key{0};

  void sink(Key key) {
    Key* const heap = heap_.data();
    std::size_t hole = 0;
    for (std::size_t child = 1; child < size_; child = arity * hole + 1) {
      // Branch-free: branches would often be mispredicted.
      const std::size_t a = child + (heap[child + 1] < heap[child] ? 1 : 0);
      const std::size_t b = child + 2 + (heap[child + 3] < heap[child + 2] ? 1 : 0);
      const std::size_t least = a + (b - a) * (heap[b] < heap[a] ? 1 : 0);
      if (key <= heap[least]) break;
      heap[hole] = heap[least];
      hole = least;
    }
    heap[hole] = key;
  }

  int topo_bits_;
  std::size_t size_ = 0;
  std::vector<Key> heap_ = std::vector<Key>(1 + arity, none);  // from size_ on: none
};

__extension__ typedef unsigned __int128 WideKey;

/// An upper bound of the makespan: each op advances one clock by its time, each transfer two.
TimePoint end_of_time(const Graph& graph) {
  TimePoint end{};
  for (const OpId v : graph.ops()) end += graph.op(v).compute;
  for (const EdgeId e : graph.edges()) end += 2 * graph.time(e);
  return end;
}

int topo_bits(const Graph& graph) {
  std::uint32_t largest = 0;
  for (const OpId v : graph.ops()) largest = std::max(largest, graph.op(v).topo);
  return static_cast<int>(std::bit_width(largest));
}

}  // namespace

class Simulator::Simulation {
 public:
  virtual ~Simulation() = default;
  virtual const Step& run(const IdVector<OpId, DeviceId>& placement, Log* log,
                          std::span<StepObserver* const> observers,
                          const IdVector<DeviceId, Bytes>& held) = 0;
};

namespace {

template <class Key>
class KeyedSimulation final : public Simulator::Simulation {
 public:
  KeyedSimulation(const Graph& graph, std::size_t devices)
      : graph_(graph),
        channels_(devices),
        devices_(devices),
        sent_(graph.num_slots() * devices),
        by_topo_(std::size_t{1} << topo_bits(graph), no_op),
        queue_(topo_bits(graph)) {
    at_start_.reserve(graph.num_ops());
    for (const OpId v : graph.ops()) {
      by_topo_[graph.op(v).topo] = v;
      const auto num_inputs = static_cast<std::uint32_t>(graph.in_edges(v).size());
      at_start_.push_back({.ready = TimePoint{},
                           .unmet = num_inputs,
                           .unread = static_cast<std::uint32_t>(graph.out_edges(v).size()),
                           .topo = graph.op(v).topo,
                           .device = {}});
      if (num_inputs == 0) sources_.push_back(v);
    }
  }

  const Step& run(const IdVector<OpId, DeviceId>& placement, Log* log,
                  std::span<StepObserver* const> observers,
                  const IdVector<DeviceId, Bytes>& held) override {
    log_ = log;
    observers_ = observers;
    reset(placement, held);
    for (const OpId v : sources_) queue_.push({}, ops_[v].topo);
    std::size_t ran = 0;
    for (; !queue_.empty(); ++ran) run_op(by_topo_[queue_.pop()]);
    BAECHI_CHECK(ran == graph_.num_ops(), "{} of {} ops ran: a cycle", ran, graph_.num_ops());
    finish(ran);
    return step_;
  }

 private:
  struct OpState {
    TimePoint ready{};         // latest input so far
    std::uint32_t unmet = 0;   // in-edges whose src has not run
    std::uint32_t unread = 0;  // out-edges whose dst has not run
    std::uint32_t topo = 0;
    DeviceId device{};
  };
  struct Device {
    TimePoint free{};  // for computing
    Duration busy{};
    Bytes used{}, peak{};
    Bytes weights{};  // persistent bytes of the ops that ran
    Bytes weights_at_peak{}, workspace_at_peak{};
  };
  struct Sent {
    TensorId tensor{~std::uint32_t{0}};
    Booking booking;
  };

  void reset(const IdVector<OpId, DeviceId>& placement, const IdVector<DeviceId, Bytes>& held) {
    channels_.reset();
    std::ranges::fill(sent_, Sent{});
    for (const DeviceId d : devices_.ids())
      devices_[d] = {.used = held.empty() ? Bytes{} : held[d]};
    ops_ = at_start_;
    for (const OpId v : ops_.ids()) ops_[v].device = placement[v];
    step_.result.moved = {};
    step_.result.transfers = 0;
  }

  void run_op(OpId v) {
    const Graph::Op& op = graph_.op(v);
    const auto [ready, unmet, unread, topo, d] = ops_[v];
    Device& device = devices_[d];
    const TimePoint start = later(device.free, ready);
    const TimePoint end = start + op.compute;
    device.free = end;
    device.busy += op.compute;
    hold_memory(op, d, start);
    for (const OpId u : graph_.predecessors(v)) read_outputs(u, start);
    if (log_ != nullptr) log_->on_op({v, d, ready, start, end});
    for (StepObserver* o : observers_) o->on_op(v, d, start, end);
    for (const EdgeId e : graph_.out_edges(v)) {
      OpState& reader = ops_[graph_.edge(e).dst];
      reader.ready = later(reader.ready, reader.device == d ? end : send(e, d, reader.device, end));
      if (--reader.unmet == 0) {
        queue_.push(reader.ready, reader.topo);
        graph_.prefetch(graph_.edge(e).dst);
      }
    }
  }

  /// Sends the tensors of `e`, produced at `end`, to `to`. Returns when the last one is there.
  TimePoint send(EdgeId e, DeviceId from, DeviceId to, TimePoint end) {
    TimePoint last{};
    for (const Graph::Send& s : graph_.sends(e)) {
      Sent& sent = sent_[s.slot * devices_.size() + index(to)];
      const bool cached = sent.tensor == s.tensor;
      if (!cached) {
        sent = {s.tensor, channels_.book(from, to, end, s.time)};
        ++step_.result.transfers;
        step_.result.moved += s.size;
        for (StepObserver* o : observers_)
          o->on_transfer(s.tensor, from, to, sent.booking.send_start, sent.booking.receive_end);
      }
      last = later(last, sent.booking.receive_end);
      if (log_ != nullptr)
        log_->on_transfer(
            {s, graph_.edge(e).src, graph_.edge(e).dst, from, to, cached, sent.booking});
    }
    return last;
  }

  void hold_memory(const Graph::Op& op, DeviceId d, TimePoint now) {
    Device& device = devices_[d];
    device.weights += op.persistent;
    device.used += op.outputs;
    const Bytes most = device.used + op.temporary;
    const bool is_peak = most > device.peak;
    device.peak = is_peak ? most : device.peak;
    device.weights_at_peak = is_peak ? device.weights : device.weights_at_peak;
    device.workspace_at_peak = is_peak ? op.temporary : device.workspace_at_peak;
    if (observers_.empty()) return;
    report_memory(device, d, Bytes{}, now);
    if (op.temporary == Bytes{}) return;
    report_memory(device, d, op.temporary, now);
    report_memory(device, d, Bytes{}, now);
  }

  /// Q6: outputs are freed when their last reader starts; Q5: except persistent bytes, without
  /// updating the peak; outputs without readers stay.
  void read_outputs(OpId producer, TimePoint now) {
    OpState& op = ops_[producer];
    const bool last = --op.unread == 0;
    const Graph::Op& of = graph_.op(producer);
    devices_[op.device].used -= static_cast<int>(last) * (of.outputs - of.persistent);
    if (!observers_.empty() && last) report_memory(devices_[op.device], op.device, Bytes{}, now);
  }

  static MemoryUse by_kind(Bytes weights, Bytes used, Bytes workspace) {
    return {{weights, used - weights - workspace, Bytes{}, workspace}};
  }

  void report_memory(const Device& device, DeviceId d, Bytes workspace, TimePoint now) {
    const MemoryUse use = by_kind(device.weights, device.used + workspace, workspace);
    for (StepObserver* o : observers_) o->on_memory(d, use, now);
  }

  void finish(std::size_t ran) {
    StepResult& result = step_.result;
    result.makespan = {};
    result.devices.clear();
    step_.final_memory.clear();
    for (const Device& d : devices_) {
      result.makespan = std::max(result.makespan, d.free.time_since_epoch());
      result.devices.push_back({d.busy, d.peak,
                                d.peak > Bytes{}
                                    ? by_kind(d.weights_at_peak, d.peak, d.workspace_at_peak)
                                    : MemoryUse{}});
      step_.final_memory.push_back(d.used);
    }
    result.events = ran + result.transfers;
  }

  const Graph& graph_;
  Log* log_ = nullptr;
  std::span<StepObserver* const> observers_;

  Channels channels_;
  IdVector<DeviceId, Device> devices_;
  std::vector<Sent> sent_;  // [num_slots, num_devices], the last booking of each slot
  IdVector<OpId, OpState> ops_, at_start_;
  std::vector<OpId> by_topo_, sources_;
  ReadyQueue<Key> queue_;
  Step step_;
};

std::unique_ptr<Simulator::Simulation> make_simulation(const Graph& graph, std::size_t devices) {
  const auto end = static_cast<std::uint64_t>(end_of_time(graph).time_since_epoch().count());
  if (static_cast<int>(std::bit_width(end)) + topo_bits(graph) < 64)
    return std::make_unique<KeyedSimulation<std::uint64_t>>(graph, devices);
  return std::make_unique<KeyedSimulation<WideKey>>(graph, devices);
}

}  // namespace

Simulator::Simulator(const Graph& graph, std::size_t devices)
    : simulation_(make_simulation(graph, devices)) {}
Simulator::~Simulator() = default;
Simulator::Simulator(Simulator&&) noexcept = default;

const Step& Simulator::run(const IdVector<OpId, DeviceId>& placement, Log* log,
                           std::span<StepObserver* const> observers,
                           const IdVector<DeviceId, Bytes>& held) {
  return simulation_->run(placement, log, observers, held);
}

Step simulate(const Graph& graph, const IdVector<OpId, DeviceId>& placement, std::size_t devices,
              Log* log, const IdVector<DeviceId, Bytes>& held) {
  BAECHI_CHECK(placement.size() == graph.num_ops(), "placement of {} ops for {}", placement.size(),
               graph.num_ops());
  for (const DeviceId d : placement)
    BAECHI_CHECK(index(d) < devices, "no device {} among {}", index(d), devices);
  BAECHI_CHECK(held.empty() || held.size() == devices, "{} of {} devices hold something",
               held.size(), devices);
  return Simulator(graph, devices).run(placement, log, {}, held);
}

}  // namespace baechi::original
