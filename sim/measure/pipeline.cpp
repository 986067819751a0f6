#include "sim/pipeline/pipeline.h"

#include <algorithm>
#include <string>
#include <vector>

#include "sim/error.h"
#include "sim/measure/measure.h"

namespace baechi {
namespace {

using pipeline::PipelineOptions;
using pipeline::PipelineResult;

std::vector<std::string> schedule_words() {
  std::vector<std::string> words;
  for (const pipeline::ScheduleEntry& entry : pipeline::schedules()) words.emplace_back(entry.name);
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
    options_.recompute =
        o.get("recompute", options_.recompute,
              "activation checkpointing: a stage keeps only its inputs and repeats "
              "its forward pass");
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

}  // namespace

std::unique_ptr<Measure> make_pipeline_measure(Options& o) {
  return std::make_unique<PipelineMeasure>(o);
}

}  // namespace baechi
