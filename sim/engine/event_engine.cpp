#include <cmath>

#include "sim/engine/queues.h"
#include "sim/engine/simulation.h"
#include "sim/engine/step_graph.h"
#include "sim/engine/transfer_queues.h"

namespace baechi {
namespace {

/// The common case, which has its own instantiation: one lane per device, one node, no collectives,
/// at most 64 devices, fifo, overlap, and sequential or duplex channels.
bool is_usual(const Problem& p) {
  const EngineOptions& engine = p.engine;
  return p.graph.lanes().size() == 1 && p.graph.collectives().empty() &&
         p.cluster.num_nodes() <= 1 && p.cluster.num_devices() <= 64 && engine.overlap &&
         engine.queue == ReadyOrder::fifo &&
         (engine.transfers == Transfers::sequential || engine.transfers == Transfers::duplex);
}

/// Simulates steps under Semantics::event. `usual` asserts is_usual(), so that the compiler drops
/// the checks that such a problem does not need.
template <bool usual>
class EventEngine final : public Simulator::Engine {
 public:
  explicit EventEngine(const Problem& p)
      : graph_(p),
        source_(p.graph),
        costs_(p.costs),
        options_(p.engine),
        transfers_(p.cluster, p.engine),
        devices_(p.cluster.num_devices()),
        lanes_(p.cluster.num_devices() * num_lanes()),
        to_start_(lanes_.size()),
        ops_(p.graph.num_ops()),
        input_(p.graph.num_edges()),
        holdings_(p.graph) {
    for (const DeviceId d : devices_.ids())
      devices_[d].memory = enforced() ? MemoryAccount(p.cluster.device(d).memory) : MemoryAccount();
    for (const LaneId s : lanes_.ids())
      lanes_[s].device = static_cast<DeviceId>(index(s) / num_lanes());
  }

  // flatten inlines nearly all of a step, which saves 95 of 760 instructions per op.
  [[gnu::flatten]] const StepResult& run(const Placement& placement,
                                         std::span<StepObserver* const> observers) override {
    observers_ = observers;
    reset(placement);
    load();
    while (true) {
      start_transfers();
      start_ops();
      start_collectives();
      if (events_.empty()) break;
      now_ = events_.time();
      do {
        handle(events_.pop());
        ++result_.events;
      } while (events_.time() == now_);
    }
    finish();
    return result_;
  }

 private:
  /// A lane of a device: device * number of lanes + lane.
  enum class LaneId : std::uint32_t {};

  // Event codes: the end of an op is its lane, the end of a transfer the bit and its id, the end
  // of a collective the bit and its id. A staged transfer has two more events: its latency is over,
  // and it has left its sender. (A struct of kind and id, of the same size, takes 25 instructions
  // per op more.)
  static constexpr std::uint64_t transfer_bit = std::uint64_t{1} << 32U;
  static constexpr std::uint64_t posted_bit = std::uint64_t{1} << 33U;
  static constexpr std::uint64_t left_bit = std::uint64_t{1} << 34U;
  static constexpr std::uint64_t collective_bit = std::uint64_t{1} << 35U;

  struct OpState {
    DeviceId device{};
    std::uint32_t unmet = 0;  // missing inputs; in program order also the preceding op
  };
  /// The latest copy sent to a device.
  struct LastCopy {
    TensorId tensor{~std::uint32_t{0}};
    std::uint32_t holding = 0;
    std::uint32_t last_input = 0;  // input of its latest reader
  };

  struct alignas(64) Device {
    LastCopy last_copy{};
    MemoryAccount memory{};
    std::uint32_t collectives = 0;  // collectives that run on it
    Duration in_collectives{};
  };
  struct alignas(64) Lane {
    DeviceId device{};
    OpId running = no_op;
    Duration busy{};
    TimePoint end{};  // of `running`
    ReadyQueue<usual> ready{};
  };

  void reset(const Placement& placement) {
    now_ = {};
    events_.clear();
    transfers_.reset();
    to_start_.clear();
    const bool by_priority = options_.queue == ReadyOrder::priority;
    priority_.assign(by_priority && placement.priority.empty() ? ops_.size() : 0, 0);
    const auto& priority = placement.priority.empty() ? priority_ : placement.priority;
    for (Device& d : devices_) {
      d.last_copy = {};
      d.memory.reset();
      d.collectives = 0;
      d.in_collectives = {};
    }
    for (Lane& lane : lanes_) {
      lane.running = no_op;
      lane.busy = {};
      lane.ready.reset(by_priority ? priority.data() : nullptr);
    }
    holdings_.reset();
    finished_ = 0;
    result_.oom.reset();
    result_.devices.clear();
    result_.moved = {};
    result_.transfers = result_.events = 0;
    std::ranges::transform(placement.device, graph_.num_inputs(), ops_.begin(),
                           [](DeviceId d, std::uint32_t inputs) { return OpState{d, inputs}; });
    if (in_program_order()) chain_lanes();
    waiting_.reset(source_, placement.device);
  }

  /// Program order: each op waits for the preceding one of its lane.
  void chain_lanes() {
    IdVector<LaneId, OpId> last(lanes_.size(), no_op);
    next_.assign(ops_.size(), no_op);
    for (const OpId v : ops_.ids()) {
      OpId& before = last[lane_of(v)];
      if (before != no_op) {
        next_[before] = v;
        ++ops_[v].unmet;
      }
      before = v;
    }
  }

  void load() {
    load_weights();
    if (result_.oom) return;
    for (const OpId v : graph_.sources())
      if (ops_[v].unmet == 0) make_ready(v);
  }

  /// All weights are in memory from time 0, requested in id order up to the first op whose weights
  /// do not fit.
  void load_weights() {
    if (!options_.count_memory) return;
    for (const auto& [v, size] : graph_.weights())
      devices_[ops_[v].device].memory.take(MemoryKind::weights, size);
    const bool fits =
        std::ranges::all_of(devices_, [](const Device& d) { return d.memory.fits(Bytes{}); });
    if (!fits) return refuse_weights();
    for (const DeviceId d : devices_.ids()) note_weights(d);
  }

  void refuse_weights() {
    for (Device& d : devices_) d.memory.reset();
    for (const auto& [v, size] : graph_.weights()) {
      MemoryAccount& memory = devices_[ops_[v].device].memory;
      if (!memory.fits(size)) {
        for (const DeviceId d : devices_.ids()) note_weights(d);
        request(ops_[v].device, size, v, std::nullopt);
        return;
      }
      memory.take(MemoryKind::weights, size);
    }
  }

  void handle(std::uint64_t code) {
    const auto id = static_cast<std::uint32_t>(code);
    if (code < transfer_bit)
      end_op(static_cast<LaneId>(id));
    else if (usual || (code & transfer_bit) != 0)
      end_transfer(id);
    else if ((code & posted_bit) != 0)
      transfers_.enqueue(id);
    else if ((code & left_bit) != 0)
      leave_sender(id);
    else
      end_collective(static_cast<CollectiveId>(id));
  }

  [[gnu::always_inline]] void end_op(LaneId s) {
    const OpId v = std::exchange(lanes_[s].running, no_op);
    const DeviceId d = device_of(s);
    Device& device = devices_[d];
    to_start_.insert(s);
    if (!overlap()) transfers_.compute_ended(d);
    if (options_.count_memory) {
      device.memory.give_back(MemoryKind::workspace, graph_.temporary(v));
      holdings_.drop_uses(graph_.inputs(v, input_), device.memory);
    }
    for (const TensorId t : graph_.outputs(v)) publish(t, d);
    if (in_program_order() && next_[v] != no_op) take_input(next_[v]);
    if (!observers_.empty()) report_memory(d);
    ++finished_;
  }

  [[gnu::noinline]] void end_collective(CollectiveId c) {
    const Collective& collective = source_.collectives()[c];
    for (const OpId v : collective.member_ids()) {
      --devices_[ops_[v].device].collectives;
      if (!overlap()) to_start_.insert(computing_lane(ops_[v].device));
      end_op(lane_of(v));
    }
    result_.events += collective.members - 1;
  }

  /// Tensor `t` is complete on `src`: satisfies local readers and sends copies to the others.
  void publish(TensorId t, DeviceId src) {
    if (graph_.instant(t)) return publish_instantly(t);
    const auto readers = graph_.readers(t);
    auto uses = static_cast<std::uint32_t>(readers.size());  // local readers and copies to send
    for (const auto& reader : readers) {
      OpState& op = ops_[reader.op];
      if (op.device == src) {
        input_[reader.input] = Holdings::of(t);
        if (--op.unmet == 0) make_ready(reader.op);
      } else if (joins_copy(reader, t, src, op.device)) {
        --uses;
      }
    }
    if (!options_.count_memory) return;
    holdings_.produce(t, uses);
    if (uses == 0)
      devices_[src].memory.give_back(MemoryKind::outputs, holdings_.size(Holdings::of(t)));
  }

  void publish_instantly(TensorId t) {
    for (const auto& [reader, input] : graph_.readers(t)) {
      input_[input] = holdings_.always_held();
      take_input(reader);
    }
  }

  /// Gives `reader` a copy of `t` on `dst`. Returns true if it shares the copy of another reader;
  /// otherwise sends a new copy.
  bool joins_copy(const StepGraph::Reader& reader, TensorId t, DeviceId src, DeviceId dst) {
    const EdgeId e = graph_.edge(reader);
    LastCopy& copy = devices_[dst].last_copy;
    const bool sent = copy.tensor == t && options_.cache_tensors;
    if (sent) {
      input_[copy.last_input] = static_cast<std::uint32_t>(index(e));
      if (options_.count_memory) holdings_.add_use(copy.holding);
    } else {
      copy.tensor = t;
      copy.holding = holdings_.next_copy();
      if (options_.count_memory) holdings_.add_copy(graph_.copied(t));
      const std::uint32_t id = transfers_.add();
      Transfer& transfer = transfers_[id];  // assigned by field: an aggregate would be copied
      transfer.produced = now_;
      transfer.time = graph_.transfer(t, src, dst);
      transfer.size = graph_.size(t);
      transfer.tensor = t;
      transfer.src = src;
      transfer.dst = dst;
      transfer.first_reader = e;
      transfer.holding = copy.holding;
      send(id);
    }
    copy.last_input = reader.input;
    input_[reader.input] = static_cast<std::uint32_t>(index(no_edge));
    return sent;
  }

  void send(std::uint32_t id) {
    if (!staged()) return transfers_.enqueue(id);
    const Transfer& transfer = transfers_[id];
    events_.push(now_ + costs_.latency(transfer.tensor, transfer.src, transfer.dst),
                 posted_bit | id);
  }

  void leave_sender(std::uint32_t id) {
    const Transfer& transfer = transfers_[id];
    transfers_.leave(id, now_);
    left(transfer.src, transfer.tensor);
  }

  void end_transfer(std::uint32_t id) {
    const Transfer& transfer = transfers_[id];
    if (staged()) {
      transfers_.arrive(transfer.dst);
    } else {
      transfers_.end(transfer.src, transfer.dst);
      left(transfer.src, transfer.tensor);
    }
    if (!overlap()) to_start_.insert(computing_lane(transfer.dst));
    for (EdgeId e = transfer.first_reader; e != no_edge;) {
      const auto [reader, input] = graph_.reader(e);
      e = static_cast<EdgeId>(std::exchange(input_[input], transfer.holding));
      take_input(reader);
    }
    transfers_.drop(id);
  }

  /// A transfer of `t` has left its sender.
  void left(DeviceId src, TensorId t) {
    if (!overlap()) to_start_.insert(computing_lane(src));
    if (options_.count_memory) holdings_.drop_output(t, devices_[src].memory);
    if (!observers_.empty()) report_memory(src);
  }

  void take_input(OpId v) {
    if (--ops_[v].unmet == 0) make_ready(v);
  }

  [[gnu::noinline]] void make_ready(OpId v) {
    if (const CollectiveId c = collective(v); c != no_collective) return waiting_.arrive(c, now_);
    const LaneId s = lane_of(v);
    graph_.prefetch_start(v);
    if (lanes_[s].running == no_op) to_start_.insert(s);
    lanes_[s].ready.push(v, now_);
  }

  void start_transfers() {
    if (staged()) transfers_.receive_all([this](std::uint32_t id) { receive(id); });
    transfers_.start_all([this](DeviceId d) { return computes(d); },
                         [this](std::uint32_t id) { return start_transfer(id); });
  }

  /// Returns false if its copy does not fit, which ends the run.
  bool start_transfer(std::uint32_t id) {
    const Transfer& transfer = transfers_[id];
    if (options_.count_memory) {
      const Bytes size = holdings_.size(transfer.holding);
      if (!request(transfer.dst, size, no_op, transfer.tensor)) return false;
      MemoryAccount& memory = devices_[transfer.dst].memory;
      memory.take(MemoryKind::copies, size);
      memory.note_peak();
      if (!observers_.empty()) report_memory(transfer.dst);
    }
    result_.moved += transfer.size;
    ++result_.transfers;
    if (staged()) {
      sent_.resize(std::max<std::size_t>(sent_.size(), id + 1));
      sent_[id] = now_;
      events_.push(now_ + stages(costs_, transfer.tensor, transfer.src, transfer.dst).out,
                   left_bit | id);
      return true;
    }
    const TimePoint end = now_ + transfer.time;
    if (!observers_.empty()) report_transfer(transfer, now_, end);
    events_.push(end, transfer_bit | id);
    return true;
  }

  /// The second half of a staged transfer.
  void receive(std::uint32_t id) {
    const Transfer& transfer = transfers_[id];
    const TimePoint end = now_ + stages(costs_, transfer.tensor, transfer.src, transfer.dst).in;
    report_transfer(transfer, sent_[id], end);
    events_.push(end, transfer_bit | id);
  }

  void start_ops() {
    to_start_.drain([this](LaneId s) {
      Lane& lane = lanes_[s];
      if (lane.running != no_op || lane.ready.empty() || result_.oom) return;
      if (!overlap() && s == computing_lane(lane.device) && moves(lane.device)) return;
      start_op(s, lane.ready.pop());
    });
  }

  void start_op(LaneId s, OpId v) {
    const DeviceId d = device_of(s);
    if (!request_memory(v, d)) return;
    Duration time = graph_.compute(v, d);
    if (!usual && devices_[d].collectives > 0 && s == computing_lane(d))
      time = stretched(time, options_.disturbed, "disturbed");
    graph_.prefetch_end(v);
    run(s, v, time);
    events_.push(lanes_[s].end, index(s));
  }

  /// Whether the outputs and the workspace of `v` fit on its device `d`; if not, the run is over.
  bool request_memory(OpId v, DeviceId d) {
    if (!options_.count_memory) return true;
    return request(d, graph_.output_bytes(v) + graph_.temporary(v), v, std::nullopt);
  }

  /// `v` takes its memory, which has been requested, and runs for `time`.
  void run(LaneId s, OpId v, Duration time) {
    if (options_.count_memory) {
      MemoryAccount& memory = devices_[device_of(s)].memory;
      memory.take(MemoryKind::outputs, graph_.output_bytes(v));
      memory.take(MemoryKind::workspace, graph_.temporary(v));
      memory.note_peak();
    }
    Lane& lane = lanes_[s];
    lane.running = v;
    lane.busy += time;
    lane.end = now_ + time;
    if (!observers_.empty()) report_op(lane);
  }

  /// Starts the collectives whose members have all arrived and whose lanes are free, in the order
  /// of (arrival of the last member, id).
  void start_collectives() {
    if (usual || waiting_.none_gathered() || result_.oom) return;
    waiting_.start_gathered([this](CollectiveId c) {
      const auto members = source_.collectives()[c].member_ids();
      const auto free = [this](OpId v) {
        return lanes_[lane_of(v)].running == no_op && (overlap() || !computes(ops_[v].device));
      };
      if (result_.oom || !std::ranges::all_of(members, free)) return false;
      return start_collective(c);
    });
  }

  /// Returns false if a member's memory does not fit, which ends the run.
  [[gnu::noinline]] bool start_collective(CollectiveId c) {
    const Collective& collective = source_.collectives()[c];
    member_devices_.clear();
    bool overlaps = false;
    for (const OpId v : collective.member_ids()) {
      if (!request_memory(v, ops_[v].device)) return false;
      member_devices_.push_back(ops_[v].device);
      overlaps |= computes(ops_[v].device);
    }
    Duration time = costs_.collective(collective, member_devices_);
    if (overlaps) time = stretched(time, options_.overlapped, "overlapped");
    for (const OpId v : collective.member_ids()) {
      Device& device = devices_[ops_[v].device];
      ++device.collectives;
      device.in_collectives += time;
      run(lane_of(v), v, time);
    }
    events_.push(now_ + time, collective_bit | index(c));
    return true;
  }

  /// check_limits() does not know how often an engine's factor applies.
  Duration stretched(Duration time, double factor, const char* key) const {
    if (factor == 1.0) return time;
    const Duration longer{saturated(std::round(static_cast<double>(time.count()) * factor))};
    if (now_ + longer >= TimePoint{Duration{count_limit}}) refuse_factor(key, factor);
    return longer;
  }

  LaneId lane_of(OpId v) const {
    const DeviceId d = ops_[v].device;
    if (num_lanes() == 1) return static_cast<LaneId>(d);
    return static_cast<LaneId>(index(d) * num_lanes() + index(graph_.lane(v)));
  }
  DeviceId device_of(LaneId s) const {
    return num_lanes() == 1 ? static_cast<DeviceId>(s) : lanes_[s].device;
  }
  LaneId computing_lane(DeviceId d) const { return static_cast<LaneId>(index(d) * num_lanes()); }
  /// Whether an op of lane "compute" runs on `d`.
  bool computes(DeviceId d) const { return lanes_[computing_lane(d)].running != no_op; }

  /// Without overlap: whether a transfer or a collective keeps `d` from computing.
  bool moves(DeviceId d) const { return transfers_.moving(d) || devices_[d].collectives > 0; }

  // Constants of the problem, known at compile time if `usual`.
  std::size_t num_lanes() const { return usual ? 1 : graph_.num_lanes(); }
  CollectiveId collective(OpId v) const { return usual ? no_collective : graph_.collective(v); }
  bool overlap() const { return usual || options_.overlap; }
  bool staged() const { return !usual && options_.transfers == Transfers::staged; }
  bool in_program_order() const { return !usual && options_.queue == ReadyOrder::program; }
  bool enforced() const { return options_.enforce_memory && options_.count_memory; }

  /// Whether `size` fits on `d`; if not, the run is over. For a transfer `op` is no_op.
  [[gnu::always_inline]] bool request(DeviceId d, Bytes size, OpId op,
                                      std::optional<TensorId> transfer) {
    if (devices_[d].memory.fits(size)) [[likely]]
      return true;
    result_.oom = {.device = d,
                   .op = transfer ? source_.tensor(*transfer).producer : op,
                   .transfer = transfer,
                   .needed = size,
                   .free = devices_[d].memory.free(),
                   .at = now_,
                   .live = devices_[d].memory.live()};
    to_start_.clear();  // ends the step
    events_.clear();
    return false;
  }

  void note_weights(DeviceId d) {
    devices_[d].memory.note_peak();
    report_memory(d);
  }

  // Not inlined, because few steps are observed.
  [[gnu::noinline]] void report_memory(DeviceId d) {
    for (StepObserver* o : observers_) o->on_memory(d, devices_[d].memory.live(), now_);
  }
  [[gnu::noinline]] void report_op(const Lane& lane) {
    for (StepObserver* o : observers_) {
      if (options_.count_memory)
        o->on_memory(lane.device, devices_[lane.device].memory.live(), now_);
      o->on_op(lane.running, lane.device, now_, lane.end);
    }
  }
  [[gnu::noinline]] void report_transfer(const Transfer& t, TimePoint start, TimePoint end) {
    for (StepObserver* o : observers_) o->on_transfer(t.tensor, t.src, t.dst, start, end);
  }

  void finish() {
    BAECHI_CHECK(finished_ == graph_.num_ops() || result_.oom, "no event left after {} of {} ops",
                 finished_, graph_.num_ops());
    result_.makespan = now_.time_since_epoch();
    for (Lane& lane : lanes_) {
      if (lane.running == no_op) continue;  // else the step ran out of memory
      lane.busy -= lane.end - now_;
      if (collective(lane.running) != no_collective)
        devices_[lane.device].in_collectives -= lane.end - now_;
    }
    for (const DeviceId id : devices_.ids()) {
      const Device& d = devices_[id];
      const Duration busy = lanes_[computing_lane(id)].busy;
      result_.devices.push_back({busy, d.memory.peak(), d.memory.at_peak(), d.in_collectives});
#ifdef BAECHI_CHECKS
      for (const MemoryKind kind : memory_kinds) {
        BAECHI_CHECK(result_.oom || kind == MemoryKind::weights || d.memory.live()[kind] == Bytes{},
                     "{} B of {} live at the end", d.memory.live()[kind].count, to_text(kind));
      }
#endif
    }
  }

  StepGraph graph_;
  const OpGraph& source_;
  const CostModel& costs_;
  const EngineOptions options_;
  std::span<StepObserver* const> observers_;

  TimePoint now_{};
  EventQueue events_;
  TransferQueues<usual> transfers_;
  IdVector<DeviceId, Device> devices_;
  IdVector<LaneId, Lane> lanes_;
  IdSet<LaneId, usual> to_start_;  // lanes that may have an op to start
  IdVector<OpId, OpState> ops_;
  // [num_edges], by input: the holding that it reads; while its copy is in flight, the EdgeId of
  // the copy's next reader.
  std::vector<std::uint32_t> input_;
  Holdings holdings_;
  std::vector<TimePoint> sent_;            // of staged transfers, by transfer id
  IdVector<OpId, std::int32_t> priority_;  // all 0, for a placement without priorities
  IdVector<OpId, OpId> next_;              // in program order: the next op of the lane; else empty
  WaitingCollectives waiting_;
  std::vector<DeviceId> member_devices_;
  std::size_t finished_ = 0;
  StepResult result_;
};

}  // namespace

std::unique_ptr<Simulator::Engine> make_event_engine(const Problem& problem) {
  if (is_usual(problem)) return std::make_unique<EventEngine<true>>(problem);
  return std::make_unique<EventEngine<false>>(problem);
}

}  // namespace baechi
