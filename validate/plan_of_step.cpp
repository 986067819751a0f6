#include "scenarios/run/hashes.h"
#include "sim/engine/channels.h"
#include "sim/random.h"
#include "validate/export.h"

namespace baechi::validate {
namespace {

Body spin(Duration length) { return {.kind = BodyKind::spin, .args = {length.count()}}; }

Body body_of_size(BodyKind kind, std::int64_t size) {
  if (kind == BodyKind::cublas) return {.kind = kind, .args = {size, size, size}};
  return {.kind = kind, .args = {size}};
}

Body body_of_stand_in(const StandIn& work, Duration length) {
  const auto kind = parse<BodyKind>(work.kind);
  return kind ? body_of_size(*kind, work.argument) : spin(length);
}

/// The size of `kind` whose time is nearest to `length`, among those that were measured or lie
/// between; a spin if `length` is outside of their times.
Body sized(const Calibration::OpTime& op, BodyKind kind, Duration length) {
  const std::int64_t step = kind == BodyKind::ew ? 32 : 16;
  const double least = kind == BodyKind::ew ? op.time.least : std::cbrt(op.time.least / 2.0);
  const double most = kind == BodyKind::ew ? op.time.most : std::cbrt(op.time.most / 2.0);
  const auto takes = [&](std::int64_t steps) {
    return op.time(body_of_size(kind, steps * step).amount());
  };
  const double wanted = static_cast<double>(length.count());
  std::int64_t low = std::llround(least) / step;  // takes no longer
  std::int64_t high = std::llround(most) / step;
  if (takes(low) > wanted || takes(high) < wanted) return spin(length);
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (takes(middle) <= wanted ? low : high) = middle;
  }
  return body_of_size(kind, (takes(high) - wanted < wanted - takes(low) ? high : low) * step);
}

Body timed(OpWork work, Duration length, const Calibration& calibration, std::size_t turn) {
  std::vector<const Calibration::OpTime*> kinds{nullptr};  // a spin
  const std::string_view of_work = stand_in(work, calibration).kind;
  for (const auto& op : calibration.ops) {
    if (op.kind == "spin" || !parse<BodyKind>(op.kind)) continue;
    if (&op != calibration.find_op(op.kind)) continue;  // of another mode
    if (op.kind == of_work) return sized(op, *parse<BodyKind>(op.kind), length);
    kinds.push_back(&op);
  }
  const auto* op = kinds[turn % kinds.size()];
  return op == nullptr ? spin(length) : sized(*op, *parse<BodyKind>(op->kind), length);
}

constexpr std::size_t most_devices_of_plan = 64;
constexpr std::size_t most_queues = 8;

/// An op, or a transfer or half of one, as the engine ran it.
struct Slice {
  Duration start{}, end{};
  bool transfer = false;
  OpId op{};
  TensorId tensor{};
  int from = 0, to = 0;
  std::size_t copy = 0;  // of a transfer: its number among the recorded ones
};

class Recorder final : public StepObserver {
 public:
  Recorder(const Problem& problem, const CostModel& lengths)
      : problem_(problem), lengths_(lengths) {}

  void on_op(OpId op, DeviceId device, TimePoint start, TimePoint end) override {
    slices.push_back({.start = start.time_since_epoch(),
                      .end = end.time_since_epoch(),
                      .op = op,
                      .from = static_cast<int>(index(device))});
  }
  void on_transfer(TensorId tensor, DeviceId src, DeviceId dst, TimePoint start,
                   TimePoint end) override {
    Slice slice{.start = start.time_since_epoch(),
                .end = end.time_since_epoch(),
                .transfer = true,
                .tensor = tensor,
                .from = static_cast<int>(index(src)),
                .to = static_cast<int>(index(dst)),
                .copy = copies++};
    if (problem_.engine.transfers != Transfers::staged) return slices.push_back(slice);
    const Stages parts = stages(problem_.costs, tensor, src, dst);
    if (lengths_.latency(tensor, src, dst) != Duration::zero())
      throw InputError(
          "a plan has no staged transfers with a latency: it would hold no channel, "
          "which a queue of a GPU cannot say (give the link 'latency: 0')");
    Slice in = slice;
    slice.end = slice.start + parts.out;
    slice.to = Task::host;
    in.start = in.end - parts.in;
    in.from = Task::host;
    slices.push_back(slice);
    slices.push_back(in);
  }

  std::vector<Slice> slices;  // as reported; sorted by start, causes stand before what they cause
  std::size_t copies = 0;

 private:
  const Problem& problem_;
  const CostModel& lengths_;
};

void check_sayable(const Problem& problem) {
  Mistakes mistakes;
  if (problem.engine.semantics == Semantics::baechi)
    mistakes.add("a plan needs 'engine: {semantics: event}'");
  if (!problem.engine.overlap) mistakes.add("a plan needs 'engine: {overlap: true}'");
  if (problem.cluster.num_devices() > most_devices_of_plan)
    mistakes.add(fmt::format("a plan has at most {} devices, not {}", most_devices_of_plan,
                             problem.cluster.num_devices()));
  if (!problem.graph.collectives().empty())
    mistakes.add(
        "a plan has no collectives, and the step has: transform as_sends makes copies of them");
  else if (const auto& lanes = problem.graph.lanes(); lanes.size() > 1)
    mistakes.add(
        fmt::format("a plan has one compute queue per device, and the step has ops in the lanes {}",
                    fmt::join(lanes, ", ")));
  if (problem.cluster.num_nodes() > 1)
    mistakes.add("a plan is of one machine, and the cluster has several nodes");
  mistakes.throw_if_any();
}

class PlanMaker {
 public:
  PlanMaker(const Problem& problem, const Placement& placement, const PlanChoice& choice)
      : graph_(problem.graph),
        problem_(problem),
        placement_(placement),
        choice_(choice),
        channels_(problem.engine.transfers, problem.cluster.num_devices()),
        holder_(channels_.num_channels(), -1),
        busy_until_(problem.cluster.num_devices()),
        task_of_op_(problem.graph.num_ops(), -1),
        copies_of_tensor_(problem.graph.num_tensors()) {}

  ReplayPlan make() {
    Recorder recorder(problem_, choice_.lengths == nullptr ? problem_.costs : *choice_.lengths);
    Problem unlimited = problem_;
    unlimited.engine.enforce_memory = false;
    StepObserver* const observer = &recorder;
    simulate(unlimited, placement_, {&observer, 1});
    other_end_.resize(recorder.copies);
    for (const Slice& slice : recorder.slices)
      if (slice.transfer && slice.to != Task::host) other_end_[slice.copy] = slice.to;
    std::ranges::stable_sort(recorder.slices, {}, &Slice::start);

    plan_.devices = static_cast<int>(problem_.cluster.num_devices());
    plan_.mode = choice_.mode;
    plan_.way = channels_.staged() ? Way::host : Way::link;
    plan_.queues = channels_.staged() ? 2 : 1;
    sent_.resize(recorder.copies, -1);
    arrived_.resize(recorder.copies, -1);
    for (const Slice& slice : recorder.slices) slice.transfer ? add_transfer(slice) : add_op(slice);
    add_memory();
    return std::move(plan_);
  }

 private:
  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  int add(Task task) {
    std::ranges::sort(task.after);
    const auto repeated = std::ranges::unique(task.after);
    task.after.erase(repeated.begin(), repeated.end());
    plan_.tasks.push_back(std::move(task));
    return static_cast<int>(plan_.tasks.size()) - 1;
  }

  /// The transfer that brings `e`'s tensor to its reader; npos if it needs none.
  static constexpr std::size_t none = ~std::size_t{0};
  std::size_t copy_for(EdgeId e) const {
    const Edge& edge = graph_.edge(e);
    const DeviceId there = placement_.device[edge.dst];
    if (graph_.instant(edge.tensor) || placement_.device[edge.src] == there) return none;
    std::size_t before = 0;  // readers there that come first
    if (!problem_.engine.cache_tensors) {
      for (const EdgeId other : graph_.readers(edge.tensor)) {
        if (other == e) break;
        if (placement_.device[graph_.edge(other).dst] == there) ++before;
      }
    }
    for (const auto& [to, copy] : copies_of_tensor_[edge.tensor])
      if (to == there && before-- == 0) return copy;
    BAECHI_CHECK(false, "the engine reported no transfer for edge {}", index(e));
  }

  void add_op(const Slice& slice) {
    Task task;
    task.device = slice.from;
    task.length = choice_.lengths == nullptr
                      ? slice.end - slice.start
                      : choice_.lengths->compute(slice.op, device_at(slice.from));
    task.body = body_of(choice_.bodies, graph_.work(slice.op), task.length, choice_.calibration,
                        index(slice.op));
    for (const EdgeId e : graph_.in_edges(slice.op)) {
      const std::size_t copy = copy_for(e);
      task.after.push_back(copy == none ? task_of_op_[graph_.edge(e).src] : arrived_[copy]);
    }
    task_of_op_[slice.op] = add(std::move(task));
  }

  void add_transfer(const Slice& slice) {
    const Tensor& tensor = graph_.tensor(slice.tensor);
    Task task{.transfer = true,
              .device = slice.from,
              .to = slice.to,
              .bytes = tensor.size.count,
              .length = length_of(slice),
              .body = {},
              .after = {}};
    const bool second_half = slice.from == Task::host;
    task.queue = second_half ? 1 : free_queue(slice);
    task.after.push_back(second_half ? sent_[slice.copy] : task_of_op_[tensor.producer]);
    const int id = static_cast<int>(plan_.tasks.size());
    if (channels_.limited()) {
      if (!second_half) hold(channels_.sending(device_at(slice.from)), task, id);
      if (slice.to != Task::host) hold(channels_.receiving(device_at(slice.to)), task, id);
    }
    add(std::move(task));
    if (!second_half) sent_[slice.copy] = id;
    if (slice.to == Task::host) return;
    arrived_[slice.copy] = id;
    copies_of_tensor_[slice.tensor].emplace_back(device_at(slice.to), slice.copy);
  }

  static DeviceId device_at(int i) { return DeviceId{static_cast<std::uint32_t>(i)}; }

  /// For a transfer, or half of one.
  Duration length_of(const Slice& slice) const {
    if (choice_.lengths == nullptr) return slice.end - slice.start;
    const DeviceId src = placement_.device[graph_.tensor(slice.tensor).producer];
    if (!channels_.staged())
      return choice_.lengths->transfer(slice.tensor, src, device_at(slice.to));
    const DeviceId dst = device_at(slice.to == Task::host ? other_end_.at(slice.copy) : slice.to);
    const Stages parts = stages(*choice_.lengths, slice.tensor, src, dst);
    return slice.to == Task::host ? parts.out : parts.in;
  }

  /// The task takes the channel after the one that has it; a shared queue says so already.
  void hold(std::size_t channel, Task& task, int id) {
    const int before = std::exchange(holder_[channel], id);
    if (before < 0 || before == id) return;
    if (plan_.queue_of(plan_.tasks[at(before)]) != plan_.queue_of(task))
      task.after.push_back(before);
  }

  /// A queue of the sender's that is free by then: the first.
  int free_queue(const Slice& slice) {
    if (channels_.limited()) return 0;
    auto& free = busy_until_[at(slice.from)];
    std::size_t k = 0;
    while (k < free.size() && free[k] > slice.start) ++k;
    if (k == free.size()) free.emplace_back();
    if (free.size() > most_queues)
      throw InputError(
          fmt::format("device {} has more than {} transfers at once, and a plan as many "
                      "queues: 'engine: {{transfers: duplex}}' needs one",
                      slice.from, most_queues));
    free[k] = slice.end;
    plan_.queues = std::max(plan_.queues, static_cast<int>(free.size()));
    return static_cast<int>(k);
  }

  void add_buffer(int device, Bytes bytes, int task, std::vector<int> until) {
    if (bytes == Bytes{}) return;
    if (until.empty()) until.push_back(task);
    std::ranges::sort(until);
    const auto repeated = std::ranges::unique(until);
    until.erase(repeated.begin(), repeated.end());
    plan_.buffers.push_back(
        {.device = device, .bytes = bytes.count, .task = task, .until = std::move(until)});
  }

  void add_memory() {
    plan_.resident.resize(at(plan_.devices));
    for (const DeviceId d : problem_.cluster.devices())
      plan_.budget.push_back(problem_.cluster.device(d).memory.count);
    std::vector<std::vector<int>> readers(sent_.size());  // of each copy
    for (const OpId v : graph_.ops()) {
      const auto device = static_cast<int>(index(placement_.device[v]));
      plan_.resident[at(device)] += graph_.op(v).persistent.count;
      add_buffer(device, graph_.op(v).temporary, task_of_op_[v], {});
      for (const TensorId t : graph_.outputs(v)) {
        std::vector<int> until;
        if (!graph_.instant(t)) {
          for (const EdgeId e : graph_.readers(t)) {
            const std::size_t copy = copy_for(e);
            const int reader = task_of_op_[graph_.edge(e).dst];
            until.push_back(copy == none ? reader : sent_[copy]);
            if (copy != none) readers[copy].push_back(reader);
          }
        }
        add_buffer(device, graph_.tensor(t).held(), task_of_op_[v], std::move(until));
      }
    }
    for (const TensorId t : graph_.tensors())
      for (const auto& [to, copy] : copies_of_tensor_[t])
        add_buffer(static_cast<int>(index(to)), graph_.tensor(t).copied(), sent_[copy],
                   std::move(readers[copy]));
    std::ranges::stable_sort(plan_.buffers, {}, &Buffer::task);
  }

  const OpGraph& graph_;
  const Problem& problem_;
  const Placement& placement_;
  const PlanChoice choice_;
  ChannelMap channels_;
  std::vector<int> holder_;                        // [channels] the task that has it
  std::vector<std::vector<Duration>> busy_until_;  // [devices][transfer queue]
  IdVector<OpId, int> task_of_op_;
  std::vector<int> other_end_;       // [copies] the receiver
  std::vector<int> sent_, arrived_;  // [copies] the task that leaves, that arrives
  IdVector<TensorId, std::vector<std::pair<DeviceId, std::size_t>>> copies_of_tensor_;
  ReplayPlan plan_;
};

void check_numbers(const ReplayPlan& plan) {
  std::int64_t most = 0;
  for (const std::int64_t b : plan.resident) most = std::max(most, b);
  for (const std::int64_t b : plan.budget) most = std::max(most, b);
  for (const Buffer& b : plan.buffers) most = std::max(most, b.bytes);
  for (const Task& t : plan.tasks) most = std::max({most, t.bytes, t.length.count()});
  if (most > most_number)
    throw InputError(fmt::format("{}: a size or time of {} is more than a plan can say ({})",
                                 plan.name, most, most_number));
}

}  // namespace

Body body_of(Bodies bodies, OpWork work, Duration length, const Calibration* calibration,
             std::size_t turn) {
  if (bodies == Bodies::spin) return spin(length);
  if (bodies == Bodies::timed) return timed(work, length, *calibration, turn);
  return body_of_stand_in(calibration == nullptr ? stand_in(work) : stand_in(work, *calibration),
                          length);
}

ReplayPlan plan_of_step(const Problem& problem, const Placement& placement, std::string name,
                        const PlanChoice& choice, std::string_view salt) {
  check_sayable(problem);
  ReplayPlan plan = PlanMaker(problem, placement, choice).make();
  plan.name = std::move(name);
  check_numbers(plan);
  Hash hash;
  hash.add(salt);
  hash.add(static_cast<std::int64_t>(fingerprint(problem.graph)));
  for (const DeviceId d : placement.device) hash.add(static_cast<std::int64_t>(index(d)));
  hash.add(plan_text(plan));
  plan.hash = hash.value();
  return plan;
}

}  // namespace baechi::validate
