#include "sim/pipeline/pipeline.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "sim/error.h"
#include "sim/objective/max_load.h"

namespace baechi {
namespace {

constexpr std::array<std::pair<std::string_view, PipelineScheme>, 4> schemes{
    {{"inference", PipelineScheme::inference},
     {"gpipe", PipelineScheme::gpipe},
     {"1f1b", PipelineScheme::one_forward_one_backward},
     {"2bw", PipelineScheme::two_buffered}}};

/// When each micro-batch was on each device, and when it was done.
class Passages final : public StepObserver {
 public:
  Passages(const Unrolled& unrolled, std::size_t devices, std::size_t micro_batches)
      : unrolled_(unrolled),
        spans_(devices, std::vector<Span>(micro_batches)),
        done_(micro_batches) {}

  void on_op(OpId v, DeviceId d, TimePoint start, TimePoint end) override {
    if (unrolled_.origin[v] == no_op) return;
    const std::uint32_t i = unrolled_.micro_batch[v];
    Span& span = spans_[d][i];
    span.begin = std::min(span.begin, start);
    span.end = std::max(span.end, end);
    if (unrolled_.graph.op(v).phase != Phase::update) done_[i] = std::max(done_[i], end);
  }

  std::size_t most_at_once(DeviceId d) const {
    std::size_t most = 0;
    for (const Span& at : spans_[d]) {
      const auto count = std::ranges::count_if(
          spans_[d], [&](const Span& s) { return s.begin <= at.begin && at.begin < s.end; });
      most = std::max(most, static_cast<std::size_t>(count));
    }
    return most;
  }

  /// Mean time from one to the next, of the middle half: while the pipeline neither fills nor
  /// drains.
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
  IdVector<DeviceId, std::vector<Span>> spans_;  // [devices][micro_batches]
  std::vector<TimePoint> done_;                  // [micro_batches]
};

/// What a device computes per sample, at most.
Duration largest_compute(const PipelineResult& result, std::size_t micro_batches) {
  Duration most{};
  for (const StageUse& stage : result.stages) most = std::max(most, stage.busy);
  return most / static_cast<std::int64_t>(micro_batches);
}

std::string difference(const PipelineResult& r, const PipelineOptions& options, bool overlap) {
  if (r.oom) return "memory ran out";
  if (r.per_sample == r.max_load) return "as the objective says";
  std::string why;
  if (options.recompute && r.max_compute > r.max_load)
    why = "forward passes are run twice";
  else if (r.per_sample < r.max_load)
    why = overlap ? "devices compute while they send and receive"
                  : "links differ, and the objective takes their mean";
  else if (options.scheme == PipelineScheme::gpipe)
    why = fmt::format("stages compute nothing for {:.1f} % of the time, as it fills and drains",
                      100.0 * r.bubble);
  else if (!r.in_line)
    why = "stages feed each other, and wait";
  else if (!overlap)
    why = "a transfer keeps both its devices from computing, so they wait for each other";
  else if (options.scheme == PipelineScheme::inference)
    why = "transfers wait for channels";
  else
    why = "the few micro-batches in flight do not hide the transfers";
  return fmt::format(
      "{:+.2f} %: {}",
      100.0 * (static_cast<double>(r.per_sample.count()) /
                   static_cast<double>(std::max<std::int64_t>(r.max_load.count(), 1)) -
               1.0),
      why);
}

}  // namespace

std::string_view to_text(PipelineScheme scheme) {
  return std::ranges::find(schemes, scheme, &decltype(schemes)::value_type::second)->first;
}

std::optional<PipelineScheme> pipeline_scheme(std::string_view name) {
  const auto it = std::ranges::find(schemes, name, &decltype(schemes)::value_type::first);
  return it == schemes.end() ? std::nullopt : std::optional(it->second);
}

PipelineResult simulate_pipeline(const Problem& problem, const Placement& placement,
                                 const PipelineOptions& options) {
  return simulate_pipeline(problem, placement, options, unroll(problem, placement, options), {});
}

PipelineResult simulate_pipeline(const Problem& problem, const Placement& placement,
                                 const PipelineOptions& options, const Unrolled& unrolled,
                                 std::span<StepObserver* const> observers) {
  if (problem.engine.semantics != Semantics::event)
    throw InputError("a pipeline needs the engine's own semantics, event");
  const UnrolledCosts costs(problem.costs, unrolled);
  EngineOptions engine = problem.engine;
  engine.queue = ReadyOrder::priority;
  const std::size_t devices = problem.cluster.num_devices();
  Passages passages(unrolled, devices, options.micro_batches);
  std::vector<StepObserver*> all(observers.begin(), observers.end());
  all.push_back(&passages);
  const StepResult step =
      simulate({unrolled.graph, problem.cluster, costs, engine}, unrolled.placement, all);

  PipelineResult result{.oom = step.oom, .makespan = step.makespan};
  const auto n = static_cast<std::int64_t>(options.micro_batches);
  result.per_sample = options.scheme == PipelineScheme::gpipe ? step.makespan / n : passages.pace();
  IdVector<DeviceId, Bytes> weights(devices);
  for (const OpId v : problem.graph.ops())
    if (options.scheme != PipelineScheme::inference || problem.graph.op(v).phase == Phase::forward)
      weights[placement.device[v]] += problem.graph.op(v).persistent;
  const Stages stages = stages_of(problem, placement);
  result.in_line = stages.in_line;
  Duration busy{};
  for (std::size_t s = 0; s < stages.devices.size(); ++s) {
    const DeviceId d = stages.devices[s];
    const std::size_t versions = weight_versions(options.scheme, s, stages.devices.size());
    StageUse use{.device = d,
                 .busy = step.devices[d].busy,
                 .in_flight = passages.most_at_once(d),
                 .versions = versions,
                 .spare_versions = static_cast<int>(versions - 1) * weights[d],
                 .peak = step.devices[d].peak,
                 .at_peak = step.devices[d].at_peak};
    use.at_peak[MemoryKind::weights] -= use.spare_versions;
    busy += use.busy;
    result.stages.push_back(use);
  }
  const double available =
      static_cast<double>(step.makespan.count()) * static_cast<double>(stages.devices.size());
  if (available > 0.0) result.bubble = 1.0 - static_cast<double>(busy.count()) / available;
  for (const DeviceLoad& load : device_loads(problem, placement))
    result.max_load = std::max(
        result.max_load, options.scheme == PipelineScheme::inference ? load.forward : load.total());
  result.max_compute = largest_compute(result, options.micro_batches);
  result.difference = difference(result, options, problem.engine.overlap);
  return result;
}

}  // namespace baechi
