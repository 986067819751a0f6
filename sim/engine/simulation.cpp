#include "sim/engine/simulation.h"

#include <algorithm>

#include "sim/engine/baechi_simulation.h"
#include "sim/engine/event_queue.h"
#include "sim/engine/memory_ledger.h"
#include "sim/engine/ready_queue.h"
#include "sim/engine/transfer_queues.h"
#include "sim/error.h"

namespace baechi {
namespace {

/// One run under Semantics::event.
class Step {
 public:
  Step(const Problem& p, const Placement& placement, std::span<StepObserver* const> observers)
      : graph_(p.graph),
        costs_(p.costs),
        options_(p.engine),
        device_of_(placement.device),
        observers_(observers),
        memory_(p.cluster),
        ready_(placement, p.cluster.num_devices(), p.engine.queue),
        transfers_(p.cluster.num_devices(), p.engine),
        running_(p.cluster.num_devices(), no_op),
        busy_(p.cluster.num_devices()),
        to_start_(p.cluster.num_devices()),
        unmet_(graph_.num_ops()),
        uses_(graph_.num_tensors()),
        copy_of_(graph_.num_edges()),
        next_reader_(graph_.num_edges()),
        copy_on_(p.cluster.num_devices()) {}

  StepResult run() {
    load();
    while (!result_.oom) {
      start_transfers();
      start_ops();
      if (events_.empty() || result_.oom) break;
      now_ = events_.top().time;
      do {
        handle(events_.pop().code);
        ++result_.events;
      } while (!events_.empty() && events_.top().time == now_);
    }
    return finish();
  }

 private:
  // Event codes: an op's end is its device, a transfer's end its copy; of a staged transfer also
  // that its latency is over, and that it has left its sender.
  static constexpr std::uint64_t transfer_bit = std::uint64_t{1} << 32U;
  static constexpr std::uint64_t posted_bit = std::uint64_t{1} << 33U;
  static constexpr std::uint64_t left_bit = std::uint64_t{1} << 34U;

  void load() {
    load_weights();
    if (result_.oom) return;
    for (const OpId v : graph_.ops()) {
      unmet_[v] = static_cast<std::uint32_t>(graph_.predecessors(v).size());
      if (unmet_[v] == 0) make_ready(v);
    }
  }

  /// All weights are there from time 0, taken in id order up to the first op whose do not fit.
  void load_weights() {
    IdVector<DeviceId, Bytes> weights(running_.size());
    OpId refused = no_op;
    for (const OpId v : graph_.ops()) {
      const DeviceId d = device_of_[v];
      const Bytes own = graph_.op(v).persistent;
      if (options_.enforce_memory && !memory_.fits(d, weights[d] + own)) {
        refused = v;
        break;
      }
      weights[d] += own;
    }
    for (const DeviceId d : weights.ids()) {
      memory_.take(d, MemoryKind::weights, weights[d]);
      memory_changed(d);
    }
    if (refused != no_op)
      request(device_of_[refused], graph_.op(refused).persistent, refused, std::nullopt);
  }

  void handle(std::uint64_t code) {
    const auto id = static_cast<std::uint32_t>(code);
    if ((code & transfer_bit) != 0)
      end_transfer(id);
    else if ((code & posted_bit) != 0)
      transfers_.enqueue(sender(id), id);
    else if ((code & left_bit) != 0)
      leave_sender(id);
    else
      end_op(static_cast<DeviceId>(id));
  }

  void end_op(DeviceId d) {
    const OpId v = running_[d];
    running_[d] = no_op;
    to_start_.insert(d);
    if (!options_.overlap) transfers_.compute_ended(d);
    memory_.give_back(d, MemoryKind::workspace, graph_.op(v).temporary);
    const auto in = graph_.in_edges(v);
    const auto from = graph_.predecessors(v);
    for (std::size_t i = 0; i < in.size(); ++i) {
      const TensorId t = graph_.edge(in[i]).tensor;
      if (graph_.instant(t)) continue;
      if (device_of_[from[i]] == d)
        drop_use(t, d);
      else if (--transfers_.copy(copy_of_[in[i]]).readers == 0)
        memory_.give_back(d, MemoryKind::copies, graph_.tensor(t).copied());
    }
    for (const TensorId t : graph_.outputs(v)) publish(t, d);
    if (!observers_.empty()) memory_changed(d);
    ++finished_;
  }

  /// Tensor `t` is complete on `src`: readers there have it, the others get copies sent.
  void publish(TensorId t, DeviceId src) {
    std::uint32_t uses = 0;
    for (const EdgeId e : graph_.readers(t)) {
      const OpId reader = graph_.edge(e).dst;
      const DeviceId dst = device_of_[reader];
      if (graph_.instant(t)) {
        take_input(reader);
        continue;
      }
      if (dst == src) {
        ++uses;
        take_input(reader);
        continue;
      }
      Known& known = copy_on_[dst];
      if (!options_.cache_tensors || known.tensor != t) {
        known = {t, transfers_.add_copy({.produced = now_, .tensor = t, .dst = dst})};
        ++uses;
      }
      Copy& copy = transfers_.copy(known.copy);
      ++copy.readers;
      copy_of_[e] = known.copy;
      next_reader_[e] = copy.first_reader;
      copy.first_reader = e;
      if (copy.readers == 1) send(src, known.copy);
    }
    uses_[t] = uses;
    if (uses == 0) memory_.give_back(src, MemoryKind::outputs, held(t));
  }

  void send(DeviceId src, std::uint32_t id) {
    if (!staged()) return transfers_.enqueue(src, id);
    const Copy& copy = transfers_.copy(id);
    events_.push({now_ + costs_.latency(copy.tensor, src, copy.dst), posted_bit | id});
  }

  void leave_sender(std::uint32_t id) {
    const DeviceId src = sender(id);
    transfers_.leave(src, id, now_);
    if (!options_.overlap) to_start_.insert(src);
    drop_use(transfers_.copy(id).tensor, src);
    if (!observers_.empty()) memory_changed(src);
  }

  void end_transfer(std::uint32_t id) {
    const Copy& copy = transfers_.copy(id);
    if (staged()) {
      transfers_.arrive(copy.dst);
    } else {
      const DeviceId src = sender(id);
      transfers_.end(src, copy.dst);
      if (!options_.overlap) to_start_.insert(src);
      drop_use(copy.tensor, src);
      if (!observers_.empty()) memory_changed(src);
    }
    if (!options_.overlap) to_start_.insert(copy.dst);
    for (EdgeId e = copy.first_reader; e != no_edge; e = next_reader_[e])
      take_input(graph_.edge(e).dst);
  }

  void take_input(OpId v) {
    if (--unmet_[v] == 0) make_ready(v);
  }

  void make_ready(OpId v) {
    const DeviceId d = device_of_[v];
    ready_.push(d, v, now_);
    to_start_.insert(d);
  }

  void drop_use(TensorId t, DeviceId d) {
    if (--uses_[t] == 0) memory_.give_back(d, MemoryKind::outputs, held(t));
  }

  void start_transfers() {
    if (staged()) transfers_.receive_all([this](std::uint32_t id) { receive(id); });
    transfers_.start_all([this](DeviceId d) { return running_[d] != no_op; },
                         [this](std::uint32_t id) { return start_transfer(id); });
  }

  /// False if the copy does not fit: then the run is over.
  bool start_transfer(std::uint32_t id) {
    const Copy& copy = transfers_.copy(id);
    const Tensor& tensor = graph_.tensor(copy.tensor);
    const DeviceId src = device_of_[tensor.producer];
    const Bytes size = tensor.copied();
    if (!request(copy.dst, size, tensor.producer, copy.tensor)) return false;
    memory_.take(copy.dst, MemoryKind::copies, size);
    memory_changed(copy.dst);
    result_.moved += tensor.size;
    ++result_.transfers;
    if (staged()) {
      transfers_.copy(id).sent = now_;
      events_.push({now_ + stages(costs_, copy.tensor, src, copy.dst).out, left_bit | id});
      return true;
    }
    const TimePoint end = now_ + costs_.transfer(copy.tensor, src, copy.dst);
    for (StepObserver* o : observers_) o->on_transfer(copy.tensor, src, copy.dst, now_, end);
    events_.push({end, transfer_bit | id});
    return true;
  }

  /// The second half of a staged transfer.
  void receive(std::uint32_t id) {
    const Copy& copy = transfers_.copy(id);
    const DeviceId src = sender(id);
    const TimePoint end = now_ + stages(costs_, copy.tensor, src, copy.dst).in;
    for (StepObserver* o : observers_) o->on_transfer(copy.tensor, src, copy.dst, copy.sent, end);
    events_.push({end, transfer_bit | id});
  }

  void start_ops() {
    if (result_.oom) return;
    to_start_.drain([this](DeviceId d) {
      if (result_.oom || running_[d] != no_op || ready_.empty(d)) return;
      if (!options_.overlap && transfers_.moving(d)) return;
      start_op(d, ready_.pop(d));
    });
  }

  void start_op(DeviceId d, OpId v) {
    Bytes outputs;
    for (const TensorId t : graph_.outputs(v)) outputs += held(t);
    const Bytes temporary = graph_.op(v).temporary;
    if (!request(d, outputs + temporary, v, std::nullopt)) return;
    memory_.take(d, MemoryKind::outputs, outputs);
    memory_.take(d, MemoryKind::workspace, temporary);
    memory_changed(d);
    const Duration time = costs_.compute(v, d);
    running_[d] = v;
    busy_[d] += time;
    for (StepObserver* o : observers_) o->on_op(v, d, now_, now_ + time);
    events_.push({now_ + time, index(d)});
  }

  Bytes held(TensorId t) const { return graph_.tensor(t).held(); }
  bool staged() const { return options_.transfers == Transfers::staged; }
  DeviceId sender(std::uint32_t id) {
    return device_of_[graph_.tensor(transfers_.copy(id).tensor).producer];
  }

  bool request(DeviceId d, Bytes size, OpId op, std::optional<TensorId> transfer) {
    if (!options_.enforce_memory || memory_.fits(d, size)) [[likely]]
      return true;
    result_.oom = {.device = d,
                   .op = op,
                   .transfer = transfer,
                   .needed = size,
                   .free = memory_.free(d),
                   .at = now_,
                   .live = memory_.live(d)};
    return false;
  }

  void memory_changed(DeviceId d) {
    memory_.note_peak(d);
    for (StepObserver* o : observers_) o->on_memory(d, memory_.live(d), now_);
  }

  StepResult finish() {
    BAECHI_CHECK(finished_ == graph_.num_ops() || result_.oom,
                 "nothing left to happen after {} of {} ops", finished_, graph_.num_ops());
    result_.makespan = now_.time_since_epoch();
    for (; !events_.empty(); events_.pop()) {  // only after a failure: ops that are cut short
      const auto& [end, code] = events_.top();
      if (code < transfer_bit) busy_[static_cast<DeviceId>(code)] -= end - now_;
    }
    for (const DeviceId d : running_.ids()) {
      result_.devices.push_back({busy_[d], memory_.peak(d), memory_.at_peak(d)});
#ifdef BAECHI_CHECKS
      for (const MemoryKind kind : memory_kinds) {
        BAECHI_CHECK(result_.oom || kind == MemoryKind::weights || memory_.live(d)[kind] == Bytes{},
                     "{} B of {} live on device {} at the end", memory_.live(d)[kind].count,
                     to_text(kind), index(d));
      }
#endif
    }
    return std::move(result_);
  }

  /// The copy last made for a device.
  struct Known {
    TensorId tensor{~std::uint32_t{0}};
    std::uint32_t copy = 0;
  };

  const OpGraph& graph_;
  const CostModel& costs_;
  const EngineOptions options_;
  const IdVector<OpId, DeviceId>& device_of_;
  const std::span<StepObserver* const> observers_;

  TimePoint now_{};
  EventQueue events_;
  MemoryLedger memory_;
  ReadyQueues ready_;
  TransferQueues transfers_;
  IdVector<DeviceId, OpId> running_;
  IdVector<DeviceId, Duration> busy_;
  DeviceSet to_start_;                       // devices that may have an op to start
  IdVector<OpId, std::uint32_t> unmet_;      // inputs not yet on the op's device
  IdVector<TensorId, std::uint32_t> uses_;   // local readers and transfers still to end
  IdVector<EdgeId, std::uint32_t> copy_of_;  // of edges between devices: what the reader reads
  IdVector<EdgeId, EdgeId> next_reader_;     // of the same copy
  IdVector<DeviceId, Known> copy_on_;
  std::size_t finished_ = 0;
  StepResult result_;
};

}  // namespace

StepResult simulate(const Problem& problem, const Placement& placement,
                    std::span<StepObserver* const> observers) {
  BAECHI_CHECK(placement.device.size() == problem.graph.num_ops(), "{} of {} ops placed",
               placement.device.size(), problem.graph.num_ops());
  BAECHI_CHECK(placement.priority.empty() || placement.priority.size() == problem.graph.num_ops(),
               "{} of {} ops have a priority", placement.priority.size(), problem.graph.num_ops());
  for (const DeviceId d : placement.device) {
    BAECHI_CHECK(index(d) < problem.cluster.num_devices(), "device {} of {}", index(d),
                 problem.cluster.num_devices());
  }
  if (problem.engine.semantics == Semantics::baechi)
    return simulate_baechi(problem, placement, observers);
  return Step(problem, placement, observers).run();
}

}  // namespace baechi
