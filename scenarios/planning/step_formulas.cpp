#include "scenarios/planning/step_formulas.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <string>
#include <tuple>

#include "sim/cluster/collectives.h"
#include "sim/graph/phase_names.h"

namespace baechi {
namespace {

/// Every kernel once, as an op: kernels of ops of two kinds differ, because the kind decides what
/// they reach.
class KernelOps {
 public:
  OpId op(std::string_view kind, const OpWork& work) {
    const MatrixShape& m = work.matrix;
    const auto [it, added] = ops_.try_emplace({std::string(kind),
                                               work.flops,
                                               work.traffic.count,
                                               work.precision,
                                               {m.kind, m.count, m.rows, m.columns, m.inner}},
                                              OpId{});
    if (added) {
      it->second = builder_.add_op({.name = fmt::format("{}", ops_.size()), .kind = kind});
      builder_.add_kernel(it->second, work);
    }
    return it->second;
  }
  OpGraph built(IdVector<OpId, OpId>& renumbered) && {
    return std::move(builder_).build(&renumbered);
  }

 private:
  using Shape = std::tuple<MatrixKind, std::int64_t, std::int64_t, std::int64_t, std::int64_t>;
  std::map<std::tuple<std::string, std::int64_t, std::int64_t, Precision, Shape>, OpId> ops_;
  OpGraphBuilder builder_;
};

/// How often each kernel runs in each pass of each stage.
using Counts = std::map<DeviceId, std::array<std::map<OpId, std::int64_t>, 3>>;

Counts count_kernels(const ParallelStep& step, KernelOps& kernels) {
  const OpGraph& graph = step.graph();
  Counts counts;
  for (const OpId v : graph.ops())
    for (const OpWork& work : graph.kernels(v)) {
      const Op& op = graph.op(v);
      ++counts[step.device()[v]][static_cast<std::size_t>(op.phase)]
              [kernels.op(graph.kinds()[op.kind], work)];
    }
  return counts;
}

}  // namespace

double flushed_step(std::span<const StageSeconds> stages, std::int64_t micro_batches) {
  double all = 0.0, longest = 0.0, last = 0.0;
  for (const StageSeconds& stage : stages) {
    all += stage.passes;
    longest = std::max(longest, stage.passes);
    last = std::max(last, stage.last);
  }
  return all + static_cast<double>(micro_batches - 1) * longest + last;
}

StepFormulas::StepFormulas(std::span<const ParallelStep> steps) {
  KernelOps kernels;
  for (const ParallelStep& step : steps) {
    const OpGraph& graph = step.graph();
    Step& made = steps_.emplace_back(Step{.micro_batches = step.micro_batches(), .stages = {}});
    std::map<DeviceId, std::size_t> stage_of;
    for (const auto& [device, passes] : count_kernels(step, kernels)) {
      stage_of[device] = made.stages.size();
      Stage& stage = made.stages.emplace_back();
      for (std::size_t i = 0; i < passes.size(); ++i)
        stage.passes[i].kernels.assign(passes[i].begin(), passes[i].end());
    }
    for (const Collective& c : graph.collectives()) {
      const DeviceId device = step.device()[c.first];
      const Phase phase = graph.op(c.first).phase;
      Stage& stage = made.stages[stage_of.at(device)];
      const Duration time =
          step.cluster().collectives().time(c, std::array{device}, step.cluster());
      (phase == Phase::update ? stage.sum
                              : stage.passes[static_cast<std::size_t>(phase)].collectives) += time;
    }
    for (const auto& [op, launches] : step.launches())
      made.stages[stage_of.at(step.device()[op])]
          .passes[static_cast<std::size_t>(graph.op(op).phase)]
          .launches += launches;
  }
  IdVector<OpId, OpId> renumbered;
  kernels_ = std::move(kernels).built(renumbered);
  for (Step& step : steps_)
    for (Stage& stage : step.stages)
      for (Pass& pass : stage.passes)
        for (auto& [kernel, times] : pass.kernels) kernel = renumbered[kernel];
}

double StepFormulas::seconds_of(const Pass& pass, const IdVector<OpId, Duration>& times,
                                const DeviceModel& gpu) {
  Duration sum = pass.collectives;
  for (const auto& [kernel, count] : pass.kernels) sum += times[kernel] * count;
  return to_us(std::max(sum, gpu.host_op * pass.launches)) / 1e6;
}

std::vector<double> StepFormulas::seconds(const DeviceModel& gpu) const {
  const IdVector<OpId, Duration> times = roofline_times(kernels_, gpu);
  std::vector<double> seconds;
  for (const Step& step : steps_) {
    std::vector<StageSeconds> stages;
    for (const Stage& stage : step.stages)
      stages.push_back({.passes = seconds_of(stage.passes[0], times, gpu) +
                                  seconds_of(stage.passes[1], times, gpu),
                        .last = to_us(stage.sum) / 1e6 + seconds_of(stage.passes[2], times, gpu)});
    seconds.push_back(flushed_step(stages, step.micro_batches));
  }
  return seconds;
}

}  // namespace baechi
