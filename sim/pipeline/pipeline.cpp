#include "sim/pipeline/pipeline.h"

#include "sim/graph/analysis.h"
#include "sim/objective/objective.h"
#include "sim/pipeline/steady_state.h"
#include "sim/report/timeline.h"
#include "sim/transform/graph_copy.h"

namespace baechi {

OpGraph joined_passes(std::span<const OpGraph> passes, std::size_t in_flight) {
  BAECHI_CHECK(!passes.empty(), "no pass");
  const OpGraph& first = passes.front();
  const std::string mark = copy_mark(first);
  OpGraphBuilder builder;
  IdVector<OpId, OpId> before;
  std::vector<OpId> last;  // of each pass
  for (std::size_t i = 0; i < passes.size(); ++i) {
    const OpGraph& graph = passes[i];
    if (graph.num_ops() != first.num_ops())
      throw InputError("passes that are joined have different ops");
    IdVector<OpId, OpId> made;
    IdVector<TensorId, TensorId> tensors(graph.num_tensors());
    for (const OpId v : graph.ops()) {
      if (graph.name(v) != first.name(v))
        throw InputError(
            fmt::format("passes that are joined have '{}' and '{}'", first.name(v), graph.name(v)));
      OpSpec spec = spec_of(graph, v);
      const std::string name = fmt::format("{}{}{}", graph.name(v), mark, i);
      if (i > 0) {
        spec.name = name;
        spec.persistent = spec.cache = {};
      } else {
        for (const OpGraph& other : passes) {
          spec.persistent = std::max(spec.persistent, other.op(v).persistent);
          spec.cache = std::max(spec.cache, other.cache(v));
        }
      }
      const OpId op = builder.add_op(spec);
      made.push_back(op);
      if (graph.op(v).group != no_group) builder.colocate(op, graph.group_name(graph.op(v).group));
      for (const OpWork& kernel : graph.kernels(v)) builder.add_kernel(op, kernel);
      for (std::size_t k = 0; k < graph.device_kinds().size(); ++k)
        builder.set_compute(op, graph.device_kinds()[k], graph.compute(v, k));
      for (const TensorId t : graph.outputs(v))
        if (!graph.tensor(t).control)
          tensors[t] = builder.add_tensor(op, graph.tensor(t).size, graph.tensor(t));
      if (i == 0) continue;
      builder.set_micro_batch(op, {v, static_cast<std::uint32_t>(i)});
      if (graph.cache(v) > Bytes{}) builder.add_control(before[v], op);
    }
    for (const EdgeId e : graph.edges()) {
      const Edge& edge = graph.edge(e);
      if (graph.tensor(edge.tensor).control)
        builder.add_control(made[edge.src], made[edge.dst]);
      else
        builder.add_edge(tensors[edge.tensor], made[edge.dst]);
    }
    for (const Collective& c : graph.collectives()) {
      std::vector<OpId> members;
      for (const OpId v : c.member_ids()) members.push_back(made[v]);
      builder.add_collective(c, members);
    }
    if (in_flight > 0 && i >= in_flight) builder.add_control(last[i - in_flight], made[OpId{0}]);
    last.push_back(made[static_cast<OpId>(graph.num_ops() - 1)]);
    before = std::move(made);
  }
  return std::move(builder).build();
}

}  // namespace baechi

namespace baechi::pipeline {
namespace {

/// Records when each micro-batch was on each device, and when it ended.
class MicroBatchSpans final : public StepObserver {
 public:
  MicroBatchSpans(const Unrolled& unrolled, std::size_t devices)
      : unrolled_(unrolled), spans_(devices), done_(unrolled.schedule.micro_batches) {
    for (const DeviceId d : unrolled.stages.devices)
      spans_[d].resize(unrolled.schedule.micro_batches);
    for (const std::string& lane : unrolled.graph.lanes())
      launches_.push_back(is_host_lane(lane) && lane != host_pass_lane);
  }

  void on_op(OpId v, DeviceId d, TimePoint start, TimePoint end) override {
    const std::uint32_t i = unrolled_.micro_batch[v];
    if (i == no_micro_batch || launches_[index(unrolled_.graph.lane(v))]) return;
    Span& span = spans_[d][i];
    span.begin = std::min(span.begin, start);
    span.end = std::max(span.end, end);
    if (unrolled_.graph.op(v).phase != Phase::update) done_[i] = std::max(done_[i], end);
  }

  std::size_t most_at_once(DeviceId d) const {
    std::vector<std::pair<TimePoint, int>> changes;  // an end before a beginning
    for (const Span& s : spans_[d]) {
      if (s.begin >= s.end) continue;
      changes.emplace_back(s.begin, 1);
      changes.emplace_back(s.end, -1);
    }
    std::ranges::sort(changes);
    std::ptrdiff_t now = 0, most = 0;
    for (const auto& [at, change] : changes) most = std::max(most, now += change);
    return static_cast<std::size_t>(most);
  }

  /// Mean time between ends of micro-batches in the middle half, without filling and draining.
  Duration pace() const {
    if (done_.size() == 1) return done_[0].time_since_epoch();
    std::vector<TimePoint> ends = done_;
    std::ranges::sort(ends);
    const std::size_t first = (ends.size() - 1) / 4;
    const std::size_t last = std::max(first + 1, (ends.size() - 1) * 3 / 4);
    return (ends[last] - ends[first]) / static_cast<std::int64_t>(last - first);
  }

 private:
  struct Span {
    TimePoint begin = TimePoint::max(), end{};
  };
  const Unrolled& unrolled_;
  std::vector<bool> launches_;                   // [lanes]
  IdVector<DeviceId, std::vector<Span>> spans_;  // [devices][micro_batches], empty without ops
  std::vector<TimePoint> done_;                  // [micro_batches]
};

/// Records the busy times of each device: of lane "compute", else of other lanes, else of the host.
class LaneTimes final : public StepObserver {
 public:
  struct Times {
    Duration computing{}, sending{}, launching{};
  };
  LaneTimes(const OpGraph& graph, std::size_t devices) : graph_(graph), busy_(devices) {
    for (const std::string& lane : graph.lanes())
      kind_.push_back(kind_.empty() ? 0 : is_host_lane(lane) ? 2 : 1);
  }

  void on_op(OpId v, DeviceId d, TimePoint start, TimePoint end) override {
    for (std::size_t k = kind_[index(graph_.lane(v))]; k < 3; ++k) {
      std::vector<Busy>& busy = busy_[d][k];
      if (busy.empty() || start > busy.back().until)
        busy.push_back({start, end});
      else
        busy.back().until = std::max(busy.back().until, end);
    }
  }
  /// The times of the run extended by the repetition `more`.
  Times of(DeviceId d, const Repetition& more) const {
    std::array<Duration, 3> busy{};
    for (std::size_t k = 0; k < 3; ++k)
      busy[k] = within(busy_[d][k], {}, TimePoint::max()) +
                more.times * within(busy_[d][k], more.from, more.from + more.period);
    return {busy[0], busy[1] - busy[0], busy[2] - busy[1]};
  }

 private:
  struct Busy {
    TimePoint from{}, until{};
  };
  static Duration within(const std::vector<Busy>& busy, TimePoint from, TimePoint until) {
    Duration sum{};
    for (const Busy& b : busy)
      sum += std::max(Duration{}, std::min(b.until, until) - std::max(b.from, from));
    return sum;
  }
  const OpGraph& graph_;
  std::vector<std::size_t> kind_;  // [lanes]
  /// By kind: intervals in which any lane of this or a lower kind was busy, in order of time.
  IdVector<DeviceId, std::array<std::vector<Busy>, 3>> busy_;
};

/// The largest compute time of a device per sample.
Duration largest_compute(const PipelineResult& result, std::size_t micro_batches) {
  Duration most{};
  for (const StageUse& stage : result.stages) most = std::max(most, stage.busy);
  return most / static_cast<std::int64_t>(micro_batches);
}

/// max_load with the time of updates per micro-batch: 1 / micro-batches, unless the schedule
/// updates after each micro-batch.
Duration load_with_its_updates(const Problem& problem, const Placement& placement,
                               const IdVector<DeviceId, DeviceLoad>& loads,
                               const Unrolled& unrolled, std::size_t micro_batches) {
  const auto is_update = [](const OpGraph& graph) {
    return [&](OpId v) { return graph.op(v).phase == Phase::update; };
  };
  const auto once = std::ranges::count_if(problem.graph.ops(), is_update(problem.graph));
  const auto runs = std::ranges::count_if(unrolled.graph.ops(), is_update(unrolled.graph));
  IdVector<DeviceId, Duration> updates(loads.size());
  for (const OpId v : problem.graph.ops())
    if (problem.graph.op(v).phase == Phase::update && problem.graph.lane(v) == compute_lane)
      updates[placement.device[v]] += problem.costs.compute(v, placement.device[v]);
  const auto per_update = static_cast<std::int64_t>(runs > once ? 1 : micro_batches);
  Duration most{};
  for (const DeviceId d : problem.cluster.devices())
    most = std::max(most, loads[d].total() - updates[d] + updates[d] / per_update);
  return most;
}

std::string reason(const PipelineResult& r, const ScheduleEntry& schedule, bool recompute,
                   bool overlap, Duration its_updates) {
  if (recompute && r.max_compute > r.max_load) return "forward passes are run twice";
  if (r.per_micro_batch < r.max_load) {
    if (schedule.layout == Layout::two_way)
      return "each device runs its own chunk and the chunk of the opposite device by turns";
    if (its_updates < r.max_load && r.per_micro_batch >= its_updates)
      return "updates run once for all micro-batches";
    return overlap ? "devices compute while they send and receive"
                   : "links differ, and the objective takes their mean";
  }
  if (r.sending + r.launching > r.bubble)
    return fmt::format(
        "stages compute nothing for {:.1f} % of the time: collectives {:.1f}, launches {:.1f}, "
        "bubble {:.1f}",
        100.0 * (r.sending + r.launching + r.bubble), 100.0 * r.sending, 100.0 * r.launching,
        100.0 * r.bubble);
  if (schedule.flushes)
    return fmt::format(
        "stages compute nothing for {:.1f} % of the time, as the pipeline fills and drains",
        100.0 * r.bubble);
  if (!r.in_line) return "devices feed each other, and wait";
  if (!overlap)
    return "a transfer keeps both its devices from computing, so they wait for each other";
  if (r.max_compute == r.max_load) return "stages wait for each other's passes";
  if (!schedule.training) return "transfers wait for channels";
  return "the few micro-batches in flight do not hide the transfers";
}

std::string difference(const PipelineResult& r, const ScheduleEntry& schedule, bool recompute,
                       bool overlap, Duration its_updates) {
  if (r.oom) return "memory ran out";
  if (r.per_micro_batch == r.max_load) return "as the objective says";
  return fmt::format(
      "{:+.2f} %: {}",
      100.0 * (static_cast<double>(r.per_micro_batch.count()) /
                   static_cast<double>(std::max<std::int64_t>(r.max_load.count(), 1)) -
               1.0),
      reason(r, schedule, recompute, overlap, its_updates));
}

/// Bytes of one version of the weights, with all other persistent bytes, on each device.
IdVector<DeviceId, Bytes> persistent_bytes(const Unrolled& unrolled, const OpGraph& graph,
                                           std::size_t devices) {
  IdVector<DeviceId, Bytes> bytes(devices);
  for (const OpId v : unrolled.graph.ops())
    if (unrolled.graph.op(v).persistent > Bytes{})
      bytes[unrolled.placement.device[v]] += graph.op(unrolled.origin[v]).persistent;
  return bytes;
}

/// Splits a peak: of the weights in memory, at most `one_version` bytes are the first version
/// (fewer if memory ran out at time 0).
StageUse memory_of(const DeviceUse& use, Bytes one_version) {
  StageUse stage{.peak = use.peak, .at_peak = use.at_peak};
  Bytes& weights = stage.at_peak[MemoryKind::weights];
  stage.spare_versions = weights - std::min(weights, one_version);
  weights -= stage.spare_versions;
  Bytes sum = stage.spare_versions;
  for (const MemoryKind kind : memory_kinds) {
    BAECHI_CHECK(stage.at_peak[kind] >= Bytes{}, "{} B of {}", stage.at_peak[kind].count,
                 to_text(kind));
    sum += stage.at_peak[kind];
  }
  BAECHI_CHECK(sum == stage.peak, "a peak of {} B with parts of {} B", stage.peak.count, sum.count);
  return stage;
}

/// A run of `unrolled`, optionally extended by a repetition.
class Stream {
 public:
  Stream(const Problem& problem, const Unrolled& unrolled)
      : unrolled_(unrolled),
        costs_(problem.costs, unrolled),
        stream_{unrolled.graph, problem.cluster, costs_, problem.engine},
        micro_batch_spans_(unrolled, problem.cluster.num_devices()),
        lanes_(unrolled.graph, problem.cluster.num_devices()) {
    // unroll() already orders passes and, with ReadyOrder::program, their ops.
    if (stream_.engine.queue == ReadyOrder::program) stream_.engine.queue = ReadyOrder::fifo;
  }

  void run(std::span<StepObserver* const> observers) {
    std::vector<StepObserver*> all(observers.begin(), observers.end());
    all.push_back(&micro_batch_spans_);
    all.push_back(&lanes_);
    step_ = simulate(stream_, unrolled_.placement, all);
  }
  /// Extends the run; `moved`: bytes moved in one repetition.
  void repeat(const Repetition& more, Bytes moved) {
    more_ = more;
    step_.makespan += more.times * more.period;
    step_.moved += Bytes{more.times * moved.count};
    for (const DeviceId d : step_.devices.ids())
      step_.devices[d].busy += lanes_.of(d, more).computing - lanes_.of(d, {}).computing;
  }

  /// The result for options.micro_batches, repetitions included.
  PipelineResult result(const Problem& problem, const Placement& placement,
                        const PipelineOptions& options) const {
    const ScheduleEntry& schedule = *find_schedule(options.schedule);  // unroll() found it
    const std::size_t devices = problem.cluster.num_devices();
    PipelineResult result{.oom = step_.oom,
                          .makespan = step_.makespan,
                          .moved = step_.moved,
                          .in_line = stages_of(problem, placement).in_line};
    const auto n = static_cast<std::int64_t>(options.micro_batches);
    const IdVector<DeviceId, Bytes> held = persistent_bytes(unrolled_, problem.graph, devices);
    LaneTimes::Times times;  // of all stages
    for (const DeviceId d : unrolled_.stages.devices) {
      StageUse use = memory_of(step_.devices[d], held[d]);
      use.by_kind = peak_memory(stream_, unrolled_.placement, d, step_.devices[d].at_peak);
      use.device = d;
      use.busy = step_.devices[d].busy;
      use.in_flight = micro_batch_spans_.most_at_once(d);
      use.versions = schedule.versions(unrolled_.stages.stage[d], unrolled_.stages.count);
      result.one_kind |= use.versions > 1 && held[d] > Bytes{};
      const LaneTimes::Times of = lanes_.of(d, more_);
      times.computing += of.computing;
      times.sending += of.sending;
      times.launching += of.launching;
      result.stages.push_back(use);
    }
    result.one_kind &= persistent_of_one_kind(problem.graph);
    const double available =
        static_cast<double>(step_.makespan.count()) * static_cast<double>(result.stages.size());
    if (available > 0.0) {
      result.sending = static_cast<double>(times.sending.count()) / available;
      result.launching = static_cast<double>(times.launching.count()) / available;
      const Duration idle = step_.makespan * static_cast<std::int64_t>(result.stages.size()) -
                            times.computing - times.sending - times.launching;
      result.bubble = static_cast<double>(idle.count()) / available;
    }
    const IdVector<DeviceId, DeviceLoad> loads = device_loads(problem, placement);
    for (const DeviceLoad& load : loads)
      result.max_load = std::max(result.max_load, schedule.training ? load.total() : load.forward);
    result.max_compute = largest_compute(result, options.micro_batches);
    // Updates on which no op waits do not show in the pace, but they take time of their device.
    result.per_micro_batch = schedule.flushes
                                 ? step_.makespan / n
                                 : std::max(micro_batch_spans_.pace(), result.max_compute);
    const Duration its_updates =
        result.per_micro_batch < result.max_load
            ? load_with_its_updates(problem, placement, loads, unrolled_, options.micro_batches)
            : result.max_load;
    result.difference =
        difference(result, schedule, options.recompute, problem.engine.overlap, its_updates);
    return result;
  }

 private:
  const Unrolled& unrolled_;
  const UnrolledCosts costs_;
  Problem stream_;
  MicroBatchSpans micro_batch_spans_;
  LaneTimes lanes_;
  StepResult step_;
  Repetition more_;
};

}  // namespace

void check_pipeline(const Problem& step, const PipelineOptions& options,
                    std::span<const std::shared_ptr<const Transform>> transforms) {
  if (step.engine.semantics != Semantics::event)
    throw InputError("a pipeline needs the engine's own semantics, event");
  const ScheduleEntry& schedule = *find_schedule(options.schedule);
  const Layout layout = schedule.layout;
  const PipelineTraits by{.turns = layout == Layout::vee,
                          .bidirectional = layout == Layout::two_way,
                          .splits = schedule.splits};
  for (const auto& transform : transforms)
    if (const std::string why = transform->no_pipeline(by); !why.empty())
      throw InputError(fmt::format("no pipeline by {}: {}", options.schedule, why));
  check_limits(step.graph, step.cluster, step.costs,
               static_cast<std::int64_t>(options.micro_batches) * (options.recompute ? 2 : 1));
}

PipelineResult simulate_pipeline(const Problem& problem, const Placement& placement,
                                 const PipelineOptions& options) {
  return simulate_pipeline(problem, placement, options, unroll(problem, placement, options), {});
}

PipelineResult simulate_pipeline(const Problem& problem, const Placement& placement,
                                 const PipelineOptions& options, const Unrolled& unrolled,
                                 std::span<StepObserver* const> observers) {
  check_pipeline(problem, options);
  Stream stream(problem, unrolled);
  stream.run(observers);
  return stream.result(problem, placement, options);
}

namespace {

/// A timeline without the ops of no length that order passes.
class PassTimeline final : public Timeline {
 public:
  explicit PassTimeline(const Unrolled& unrolled) : unrolled_(unrolled) {}
  void on_op(OpId v, DeviceId d, TimePoint start, TimePoint end) override {
    if (unrolled_.origin[v] != no_op) Timeline::on_op(v, d, start, end);
  }

 private:
  const Unrolled& unrolled_;
};

}  // namespace

PipelineResult simulate_drawn(const Problem& problem, const Placement& placement,
                              const PipelineOptions& options,
                              const std::function<void(std::string_view)>& sink) {
  const Unrolled unrolled = unroll(problem, placement, options);
  PassTimeline passes(unrolled);
  const PipelineResult result = simulate_pipeline(problem, placement, options, unrolled,
                                                  std::array<StepObserver*, 1>{&passes});
  const UnrolledCosts costs(problem.costs, unrolled);
  StepResult step;
  step.oom = result.oom;
  step.makespan = result.makespan;
  write_perfetto(sink, {unrolled.graph, problem.cluster, costs, problem.engine}, passes, step);
  return result;
}

PipelineResult simulate_few(const Problem& problem, const Placement& placement,
                            const PipelineOptions& options, std::optional<Unrolled>& unrolled) {
  check_pipeline(problem, options);
  const ScheduleEntry& entry = *find_schedule(options.schedule);
  const std::size_t all = options.micro_batches;
  const std::size_t stages = std::set(placement.device.begin(), placement.device.end()).size();
  const std::size_t group = group_of(entry.layout, stages);
  std::size_t few = all;
  if (unrolled)
    few = unrolled->schedule.micro_batches;
  else if (may_repeat(entry))
    few = few_micro_batches(all, stages, group);
  while (true) {
    if (!unrolled || unrolled->schedule.micro_batches != few)
      unrolled =
          unroll(problem, placement, {options.schedule, few, options.recompute, options.keep_last});
    if (few == all) return simulate_pipeline(problem, placement, options, *unrolled, {});
    Stream stream(problem, *unrolled);
    SteadyState steady(*unrolled, group);
    stream.run(std::array<StepObserver*, 1>{&steady});
    const std::size_t laps = unrolled->schedule.chunks / unrolled->stages.count;
    if (const auto more = steady.repetition(entry.make({unrolled->stages.count, laps, all}))) {
      stream.repeat(*more, steady.sent_in(*more));
      return stream.result(problem, placement, options);
    }
    few = more_micro_batches(few, all, group);
  }
}

}  // namespace baechi::pipeline
