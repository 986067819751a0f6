#include "sim/measure/measure.h"
#include "sim/objective/objective.h"
#include "sim/objective/replicas.h"
#include "sim/pipeline/pipeline.h"

namespace baechi {
namespace {

/// Sums over ops and devices; times in seconds.
struct Sums {
  double step = 0.0, busy = 0.0;
  double flops = 0.0, traffic = 0.0;
  double at_peak = 0.0, at_bandwidth = 0.0;
  std::array<double, all<Bound>().size()> bound{};
  bool known = true;  ///< the models of all devices with ops are known

  void add(const Sums& other) {
    step += other.step;
    busy += other.busy;
    flops += other.flops;
    traffic += other.traffic;
    at_peak += other.at_peak;
    at_bandwidth += other.at_bandwidth;
    for (std::size_t b = 0; b < bound.size(); ++b) bound[b] += other.bound[b];
    known = known && other.known;
  }
};

double seconds(Duration time) { return to_us(time) / 1e6; }

std::optional<double> fraction(double part, double whole) {
  if (!(whole > 0.0)) return std::nullopt;
  return part / whole;
}

void add_op(Sums& sums, const Problem& problem, OpId v, DeviceId d, const DeviceModel* model) {
  for (const OpWork& kernel : problem.graph.kernels(v)) {
    sums.flops += static_cast<double>(kernel.flops);
    sums.traffic += static_cast<double>(kernel.traffic.count);
    if (model == nullptr) continue;
    const double peak = model->at(kernel.precision).peak.flop_per_second;
    if (kernel.flops > 0 && peak <= 0.0) sums.known = false;
    if (peak > 0.0) sums.at_peak += static_cast<double>(kernel.flops) / peak;
    sums.at_bandwidth +=
        static_cast<double>(kernel.traffic.count) / model->bandwidth.bytes_per_second;
  }
  if (model == nullptr) {
    sums.known = false;
  } else if (index(problem.graph.lane(v)) == 0) {
    const Bound bound = bound_by_work(problem.graph, v, *model);
    sums.bound[static_cast<std::size_t>(bound)] += seconds(problem.costs.compute(v, d));
  }
}

Utilisation fractions(const Sums& sums, bool has_work) {
  Utilisation found{.busy = fraction(sums.busy, sums.step)};
  if (!has_work || !found.busy) return found;
  found.flops = sums.flops;
  found.traffic = sums.traffic;
  if (!sums.known) return found;
  found.flops_of_step = fraction(sums.at_peak, sums.step);
  found.flops_of_busy = fraction(sums.at_peak, sums.busy);
  found.traffic_of_step = fraction(sums.at_bandwidth, sums.step);
  const double ops = sums.bound[0] + sums.bound[1] + sums.bound[2];
  found.compute_bound = fraction(sums.bound[static_cast<std::size_t>(Bound::compute)], ops);
  found.memory_bound = fraction(sums.bound[static_cast<std::size_t>(Bound::memory)], ops);
  found.launch_bound = fraction(sums.bound[static_cast<std::size_t>(Bound::host)], ops);
  return found;
}

using pipeline::PipelineOptions;
using pipeline::PipelineResult;

std::vector<std::string> schedule_words() {
  std::vector<std::string> words = entry_names(pipeline::schedules());
  std::ranges::stable_partition(
      words, [](const std::string& w) { return w == PipelineOptions{}.schedule; });
  return words;
}

/// Time per micro-batch of a pipeline whose stages are the devices of the placement. A graph or
/// placement that does not form such a pipeline has no value.
class PipelineMeasure final : public Measure {
 public:
  explicit PipelineMeasure(Options& o) {
    constexpr std::int64_t most = 100'000;
    options_.schedule =
        o.get("schedule", schedule_words(), "the order of passes: sim/pipeline/README.md");
    options_.micro_batches = static_cast<std::size_t>(
        o.get("micro_batches", std::int64_t{8},
              "how many go through the pipeline; a list: one row each", 1, most));
    options_.recompute = o.get(
        "recompute", options_.recompute,
        "activation checkpointing: a stage keeps only its inputs and repeats its forward pass");
  }

  void check(const Problem& step, std::span<const std::shared_ptr<const Transform>> transforms,
             bool replicates) const override {
    pipeline::check_pipeline(step, options_, transforms);
    pipeline::check_graph(step.graph, options_);
    if (replicates) pipeline::refuse_replicas();
    const pipeline::ScheduleEntry& entry = *pipeline::find_schedule(options_.schedule);
    if (entry.layout == pipeline::Layout::two_way)  // the others have a schedule of one stage
      entry.make({.stages = std::min(step.cluster.num_devices(), std::size_t{2}),
                  .micro_batches = options_.micro_batches});
  }

  Measured of(const Problem& problem, const Placement& placement) const override {
    try {
      const pipeline::Unrolled stream = pipeline::unroll(problem, placement, options_);
      return found(problem, stream,
                   pipeline::simulate_pipeline(problem, placement, options_, stream, {}));
    } catch (const InputError& e) {
      return {.why = e.what()};
    }
  }

  /// Without a flush the value is the pace in the middle of the run, which has no exact bound; the
  /// inference schedule omits ops. bounds.repeated: updates run once for all micro-batches, and a
  /// group may be on two devices (dualpipe).
  std::optional<Duration> bound(const LowerBounds& bounds) const override {
    const pipeline::ScheduleEntry& schedule = *pipeline::find_schedule(options_.schedule);
    if (!schedule.flushes || !schedule.training) return std::nullopt;
    return bounds.repeated;
  }

 private:
  static Measured found(const Problem& problem, const pipeline::Unrolled& stream,
                        const PipelineResult& run) {
    Measured found{.out_of_memory = run.oom.has_value(), .moved = run.moved};
    found.peaks.resize(problem.cluster.num_devices());
    for (const pipeline::StageUse& stage : run.stages)
      found.peaks[index(stage.device)] = stage.peak;
    const auto fullest = std::ranges::max_element(run.stages, {}, &pipeline::StageUse::peak);
    if (fullest != run.stages.end()) found.at_peak = fullest->by_kind;
    if (run.oom)
      found.why = describe(*run.oom, {stream.graph, problem.cluster, problem.costs});
    else
      found.value = run.per_micro_batch;
    return found;
  }

  PipelineOptions options_;
};

/// The simulated makespan.
class StepTimeMeasure final : public Measure {
 public:
  Measured of(const Problem& problem, const Placement& placement) const override {
    const StepResult step = simulate(problem, placement);
    Measured found;
    found.out_of_memory = step.oom.has_value();
    if (step.oom)
      found.why = describe(*step.oom, problem);
    else
      found.value = step.makespan;
    for (const DeviceUse& use : step.devices) {
      found.peaks.push_back(use.peak);
      found.busy.push_back(use.busy);
    }
    const auto fullest = std::ranges::max_element(step.devices, {}, &DeviceUse::peak);
    const auto device = static_cast<DeviceId>(fullest - step.devices.begin());
    found.at_peak = peak_memory(problem, placement, device, fullest->at_peak);
    found.moved = step.moved;
    return found;
  }

  std::optional<Duration> bound(const LowerBounds& bounds) const override { return bounds.best(); }
};

/// Why a placement has no value: the first of its faults.
std::string fault(const Score& score) {
  if (score.over > Bytes{})
    return fmt::format("weights are {} over the memory limits", to_text(score.over));
  if (score.misplaced > 0)
    return fmt::format("{} ops are on devices that cannot run them", score.misplaced);
  if (score.split_groups > 0)
    return fmt::format("{} colocation groups are split", score.split_groups);
  return score.deadlock ? "devices wait for each other" : "";
}

/// The value of an objective, without simulation, with the objective's options.
class ObjectiveMeasure final : public Measure {
 public:
  ObjectiveMeasure(std::string_view objective, Options& o, Duration LowerBounds::* bound)
      : objective_(std::ranges::find(objectives(), objective, &ObjectiveEntry::name)->make(o)),
        bound_(bound) {}

  void check(const Problem& step, std::span<const std::shared_ptr<const Transform>> /*transforms*/,
             bool replicates) const override {
    Placement placement{.device = IdVector<OpId, DeviceId>(step.graph.num_ops(), DeviceId{})};
    const std::vector<DeviceClass> classes = device_classes(step);
    const auto many = std::ranges::find_if(
        classes, [](const DeviceClass& c) { return !c.core && c.devices.size() > 1; });
    if (replicates && many != classes.end()) {
      placement.device.assign(step.graph.num_ops(), many->devices.front());
      write_replicas({.parts = {{many->devices[0], many->devices[1]}}}, placement.facts);
    }
    objective_->score(step, placement);
  }

  Measured of(const Problem& problem, const Placement& placement) const override {
    try {
      const Score score = objective_->score(problem, placement);
      if (score.feasible()) return {.value = score.value};
      return {.out_of_memory = score.over > Bytes{}, .why = fault(score)};
    } catch (const InputError& e) {  // the objective does not support such graphs
      return {.why = e.what()};
    }
  }

  std::optional<Duration> bound(const LowerBounds& bounds) const override { return bounds.*bound_; }

 private:
  std::unique_ptr<Objective> objective_;
  Duration LowerBounds::* bound_;
};

}  // namespace

std::optional<double> Utilisation::intensity() const {
  return flops ? fraction(*flops, *traffic) : std::nullopt;
}

StepUtilisation utilisation(const Problem& problem, const Placement& placement,
                            std::span<const DeviceModel* const> models, Duration step,
                            std::span<const Duration> busy) {
  IdVector<DeviceId, Sums> sums(problem.cluster.num_devices());
  for (const DeviceId d : problem.cluster.devices()) {
    sums[d].step = seconds(step);
    sums[d].busy = seconds(busy[index(d)]);
  }
  const bool has_work = problem.graph.has_work();
  if (has_work)
    for (const OpId v : problem.graph.ops()) {
      const DeviceId d = placement.device[v];
      add_op(sums[d], problem, v, d, models[index(d)]);
    }
  StepUtilisation found;
  Sums total;
  for (const Sums& device : sums) {
    total.add(device);
    found.devices.push_back(fractions(device, has_work));
  }
  found.step = fractions(total, has_work);
  return found;
}

std::unique_ptr<Measure> make_pipeline_measure(Options& o) {
  return std::make_unique<PipelineMeasure>(o);
}

std::unique_ptr<Measure> make_step_time_measure(Options& /*o*/) {
  return std::make_unique<StepTimeMeasure>();
}

/// A load is at least the time of its ops, and so is the sum of the two largest loads by phase.
/// LowerBounds::group does not apply: a group of a replicated stage is on several devices.
std::unique_ptr<Measure> make_max_load_measure(Options& o) {
  return std::make_unique<ObjectiveMeasure>("max_load", o, &LowerBounds::work);
}

/// The parts of a device may overlap, so LowerBounds::work does not apply.
std::unique_ptr<Measure> make_latency_measure(Options& o) {
  return std::make_unique<ObjectiveMeasure>("latency", o, &LowerBounds::critical_path);
}

std::span<const MeasureEntry> measures() {
  static constexpr MeasureEntry table[] = {
      {"step_time", "time of one simulated step", "sim/engine/simulation.h", "us per step",
       make_step_time_measure},
      {"max_load",
       "time per sample of a pipeline that never waits: the largest device load; only weights "
       "count as memory",
       "Tarnawski et al., NeurIPS 2020, throughput", "us per sample", make_max_load_measure},
      {"latency",
       "time of one sample if each device runs its part as a whole; only weights count as memory",
       "Tarnawski et al., NeurIPS 2020, latency", "us per sample", make_latency_measure},
      {"pipeline",
       "time per micro-batch of a simulated pipeline, each device of the placement a stage",
       "sim/pipeline/README.md", "us per micro-batch", make_pipeline_measure},
  };
  return table;
}

std::unique_ptr<Measure> make_measure(std::string_view name, Options options,
                                      const std::string& where) {
  return make_entry(measures(), "measure", name, std::move(options), where);
}

std::optional<Bytes> Measured::peak() const {
  if (peaks.empty()) return std::nullopt;
  return *std::ranges::max_element(peaks);
}

std::string describe(const OutOfMemory& oom, const Problem& problem) {
  std::string live;
  for (const MemoryKind kind : memory_kinds)
    live +=
        fmt::format("{}{} {}", live.empty() ? "" : ", ", to_text(kind), to_text(oom.live[kind]));
  return fmt::format(
      "{}: {} '{}' needs {}, {} is free of {} at {} (live: {})",
      problem.cluster.device(oom.device).name, oom.transfer ? "the transfer of a tensor of" : "op",
      problem.graph.name(oom.op), to_text(oom.needed), to_text(oom.free),
      to_text(problem.cluster.device(oom.device).memory), to_text(oom.at.time_since_epoch()), live);
}

}  // namespace baechi
