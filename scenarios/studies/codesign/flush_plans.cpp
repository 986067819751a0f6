#include "scenarios/studies/codesign/flush_plans.h"

#include <algorithm>
#include <limits>

#include "scenarios/planning/step_formulas.h"
#include "sim/cluster/cluster.h"

namespace baechi {
namespace {

double to_seconds(Duration time) {
  return to_us(time) / 1e6;
}

/// The largest number of replicas for which there are devices and that divides the batch; 0: none.
std::int64_t most_replicas(std::int64_t devices, std::int64_t batch, std::int64_t micro_batch) {
  for (std::int64_t d = devices; d > 0; --d)
    if (batch % (d * micro_batch) == 0) return d;
  return 0;
}

/// The time of a stage's gradient reduction over its replicas.
double gradient_reduction(Bytes gradients, std::int64_t data, std::int64_t tensor,
                          const Cluster& cluster) {
  if (data == 1) return 0.0;
  const auto devices = static_cast<std::int64_t>(cluster.num_devices());
  const auto nodes = static_cast<std::int64_t>(cluster.num_nodes());
  const std::int64_t per_node = nodes == 0 ? devices : devices / nodes;
  return to_seconds(cluster.collectives().time(
      {.kind = CollectiveKind::all_reduce,
       .bytes = gradients,
       .ranks = static_cast<std::uint32_t>(data),
       .nodes = static_cast<std::uint32_t>((data * tensor + per_node - 1) / per_node),
       .sharing = static_cast<std::uint32_t>(tensor)},
      std::array{DeviceId{}}, cluster));
}

}  // namespace

FlushPlans::FlushPlans(std::span<const TrainingWork> works, std::int64_t batch,
                       const Cluster& cluster)
    : works_(works) {
  const auto devices = static_cast<std::int64_t>(cluster.num_devices());
  const double bandwidth =
      devices > 1 ? cluster.link(DeviceId{0}, DeviceId{1}).bandwidth.bytes_per_second : 1.0;
  for (std::size_t w = 0; w < works.size(); ++w) {
    const TrainingWork& work = works[w];
    const std::int64_t layers = work.layers();
    for (std::int64_t p = 1; p <= std::min(layers, devices / work.tensor); ++p) {
      const std::int64_t d = most_replicas(devices / (work.tensor * p), batch, work.micro_batch);
      if (d == 0) continue;
      Candidate plan{
          .work = w, .data = d, .micro_batches = batch / (d * work.micro_batch), .stages = {}};
      const auto input = [&](std::size_t b) {
        return static_cast<double>(work.kinds[work.blocks[b]].input.count);
      };
      for (std::int64_t s = 0; s < p; ++s) {
        // Layer i is in stage floor(i p / layers).
        const auto first = [&](std::int64_t stage) {
          return static_cast<std::size_t>((stage * layers + p - 1) / p + 1);
        };
        Stage stage{.begin = s == 0 ? 0 : first(s),
                    .end = s == p - 1 ? work.blocks.size() : first(s + 1)};
        Bytes gradients{};
        for (std::size_t b = stage.begin; b < stage.end; ++b)
          gradients += work.kinds[work.blocks[b]].gradients;
        stage.sum = gradient_reduction(gradients, d, work.tensor, cluster);
        stage.send =
            ((s > 0 ? input(stage.begin) : 0.0) + (s < p - 1 ? input(stage.end) : 0.0)) / bandwidth;
        plan.longest_send = std::max(plan.longest_send, stage.send);
        plan.longest_sum = std::max(plan.longest_sum, stage.sum);
        plan.stages.push_back(stage);
      }
      for (const bool recompute : {false, true}) {
        plan.recompute = recompute;
        if (fits(plan, cluster.device(DeviceId{}).memory)) plans_.push_back(plan);
      }
    }
  }
}

bool FlushPlans::fits(const Candidate& plan, Bytes memory) const {
  const TrainingWork& work = works_[plan.work];
  const auto stages = static_cast<std::int64_t>(plan.stages.size());
  for (std::int64_t s = 0; s < stages; ++s) {
    const Stage& stage = plan.stages[static_cast<std::size_t>(s)];
    const std::int64_t in_flight = std::min(stages - s, plan.micro_batches);
    Bytes once{}, kept{}, fullest{};
    for (std::size_t b = stage.begin; b < stage.end; ++b) {
      const LayerWork& block = work.kinds[work.blocks[b]];
      once += block.weights;
      fullest = std::max(fullest, block.kept);
      kept += plan.recompute ? block.input : block.kept;
    }
    if (plan.recompute) once += fullest;
    if (once.count + in_flight * kept.count > memory.count) return false;
  }
  return true;
}

double FlushPlans::least(const std::vector<LayerSeconds>& sums) const {
  double least = std::numeric_limits<double>::infinity();
  for (const Candidate& plan : plans_) {
    const LayerSeconds& sum = sums[plan.work];
    const double all = sum.forward * (plan.recompute ? 2.0 : 1.0) + sum.backward;
    const double longest =
        std::max(all / static_cast<double>(plan.stages.size()), plan.longest_send);
    least = std::min(
        least, all + static_cast<double>(plan.micro_batches - 1) * longest + plan.longest_sum);
  }
  return least;
}

std::optional<DesignPlan> FlushPlans::best(
    const std::vector<std::vector<LayerSeconds>>& seconds) const {
  // Prefix sums over the blocks. [works][blocks + 1]
  std::vector<std::vector<LayerSeconds>> before(works_.size());
  for (std::size_t w = 0; w < works_.size(); ++w) {
    LayerSeconds sum;
    before[w].push_back(sum);
    for (const std::uint32_t kind : works_[w].blocks) {
      sum.forward += seconds[w][kind].forward;
      sum.backward += seconds[w][kind].backward;
      sum.update += seconds[w][kind].update;
      before[w].push_back(sum);
    }
  }
  std::optional<DesignPlan> best;
  std::vector<StageSeconds> stages;
  for (const Candidate& plan : plans_) {
    stages.clear();
    for (const Stage& stage : plan.stages) {
      const LayerSeconds& from = before[plan.work][stage.begin];
      const LayerSeconds& to = before[plan.work][stage.end];
      const double forward = to.forward - from.forward, backward = to.backward - from.backward;
      stages.push_back(
          {.passes = std::max(forward * (plan.recompute ? 2.0 : 1.0) + backward, stage.send),
           .last = stage.sum + to.update - from.update});
    }
    const double step = flushed_step(stages, plan.micro_batches);
    if (best && step >= best->seconds) continue;
    const TrainingWork& work = works_[plan.work];
    const auto count = static_cast<std::int64_t>(stages.size());
    best = {.seconds = step,
            .micro_batch = work.micro_batch,
            .stages = count,
            .devices = work.tensor * plan.data * count,
            .tensor = work.tensor,
            .data = plan.data,
            .recompute = plan.recompute};
  }
  return best;
}

}  // namespace baechi
