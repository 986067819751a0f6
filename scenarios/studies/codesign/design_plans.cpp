#include "scenarios/studies/codesign/design_plans.h"

#include <algorithm>
#include <limits>

#include "placers/planners/stages_program.h"
#include "scenarios/studies/codesign/flush_plans.h"
#include "sim/error.h"

namespace baechi {
namespace {

using exact::BundleId;
using Seconds = std::vector<std::vector<LayerSeconds>>;  // [works][kinds]

double in_seconds(Duration time) {
  return static_cast<double>(time.count()) * 1e-9;
}

/// The times of a block's passes, each by `makespan` of its tasks.
LayerSeconds block_seconds(const LayerWork& block, const Accelerator& a,
                           const AcceleratorRates& rates, auto makespan) {
  std::array<double, 3> pass{};
  for (std::size_t phase = 0; phase < pass.size(); ++phase)
    pass[phase] = in_seconds(makespan(pool_tasks(block.passes[phase], a, rates)));
  return {.forward = pass[0] + in_seconds(block.sums[0]),
          .backward = pass[1] + in_seconds(block.sums[1]),
          .update = pass[2]};
}

bool mixed(const planners::StagedPlan& plan, std::int64_t planners::PlannedStage::* degree) {
  return std::ranges::any_of(plan.stages, [&](const planners::PlannedStage& stage) {
    return stage.*degree != plan.stages.front().*degree;
  });
}

}  // namespace

struct DesignPlanner::Parts {
  CodesignChoice choice;
  const Cluster& cluster;
  std::vector<TrainingWork> works{};  // by micro-batch, then ranks
  std::optional<FlushPlans> flush{};

  std::int64_t devices() const { return static_cast<std::int64_t>(cluster.num_devices()); }

  Seconds times(const Accelerator& a) const {
    Seconds seconds;
    for (const TrainingWork& work : works) {
      std::vector<LayerSeconds>& kinds = seconds.emplace_back();
      for (const LayerWork& block : work.kinds)
        kinds.push_back(
            block_seconds(block, a, choice.rates, [&](const std::vector<PoolTask>& tasks) {
              return list_schedule(tasks, a, choice.rates).makespan;
            }));
    }
    return seconds;
  }

  /// The planners' input for one micro-batch, from works [first, last).
  planners::PlannerInput plan_input(std::size_t first, std::size_t last,
                                    const Seconds& seconds) const {
    const std::size_t blocks = works[first].blocks.size();
    planners::PlannerInput input;
    input.devices = devices();
    input.memory = static_cast<double>(cluster.device(DeviceId{}).memory.count);
    input.bandwidth =
        devices() > 1 ? cluster.link(DeviceId{0}, DeviceId{1}).bandwidth.bytes_per_second : 1.0;
    input.micro_batches = choice.batch / works[first].micro_batch;
    input.nodes = IdVector<BundleId, planners::PlannerNode>(blocks);
    input.in = input.out = IdVector<BundleId, std::vector<std::uint32_t>>(blocks);
    std::vector<std::pair<BundleId, BundleId>> order;
    for (std::uint32_t b = 0; b + 1 < blocks; ++b) {
      order.emplace_back(BundleId{b}, BundleId{b + 1});
      const LayerWork& next = works[first].kinds[works[first].blocks[b + 1]];
      input.edges.push_back({BundleId{b}, BundleId{b + 1}, static_cast<double>(next.input.count)});
      input.out[BundleId{b}] = {b};
      input.in[BundleId{b + 1}] = {b};
    }
    input.order = exact::BundleOrder(blocks, order);
    for (std::uint32_t b = 0; b < blocks; ++b) {
      planners::PlannerNode& node = input.nodes[BundleId{b}];
      node.id = b;
      node.name = node.op = fmt::format("block{}", b);
    }
    for (std::size_t w = first; w < last; ++w) {
      input.degrees.push_back(works[w].tensor);
      for (const BundleId b : input.nodes.ids()) {
        const std::uint32_t kind = works[w].blocks[index(b)];
        const LayerWork& block = works[w].kinds[kind];
        const LayerSeconds& s = seconds[w][kind];
        planners::PlannerMode mode{.id = "vanilla",
                                   .time = s.forward + s.backward,
                                   .weights = static_cast<double>(block.gradients.count),
                                   .per_batch = static_cast<double>(block.kept.count),
                                   .stays = static_cast<double>(block.weights.count),
                                   .in = std::vector<double>(input.in[b].size(), 0.0),
                                   .out = std::vector<double>(input.out[b].size(), 0.0)};
        auto& modes = input.nodes[b].modes.emplace_back();
        modes.push_back(mode);
        mode.id = "activation recomp";
        mode.time += s.forward;
        mode.per_batch = static_cast<double>(block.input.count);
        mode.stays += static_cast<double>(block.kept.count);
        modes.push_back(std::move(mode));
      }
    }
    return input;
  }

  /// Lower bounds per kind of block. [kinds of the work]
  std::vector<LayerSeconds> least_of(const TrainingWork& work, const Accelerator& a) const {
    std::vector<LayerSeconds> kinds;
    for (const LayerWork& kind : work.kinds)
      kinds.push_back(block_seconds(kind, a, choice.rates, [&](const std::vector<PoolTask>& tasks) {
        return least_makespan(tasks, a, choice.rates);
      }));
    return kinds;
  }

  double least_flushed(const Accelerator& a) const {
    std::vector<LayerSeconds> sums;
    for (const TrainingWork& work : works) {
      const std::vector<LayerSeconds> kinds = least_of(work, a);
      LayerSeconds& sum = sums.emplace_back();
      for (const std::uint32_t kind : work.blocks) {
        sum.forward += kinds[kind].forward;
        sum.backward += kinds[kind].backward;
      }
    }
    return flush->least(sums);
  }

  /// A lower bound: all devices divide the work of all blocks evenly, each block with its best
  /// number of ranks.
  double least_shared(const Accelerator& a) const {
    double least = std::numeric_limits<double>::infinity();
    for (std::size_t first = 0, last = 0; first < works.size(); first = last) {
      std::vector<double> block(works[first].blocks.size(),
                                std::numeric_limits<double>::infinity());
      for (; last < works.size() && works[last].micro_batch == works[first].micro_batch; ++last) {
        const TrainingWork& work = works[last];
        const std::vector<LayerSeconds> kinds = least_of(work, a);
        for (std::size_t b = 0; b < block.size(); ++b) {
          const LayerSeconds& s = kinds[work.blocks[b]];
          block[b] =
              std::min(block[b], (s.forward + s.backward) * static_cast<double>(work.tensor));
        }
      }
      double sum = 0.0;
      for (const double b : block) sum += b;
      least = std::min(least, sum * static_cast<double>(choice.batch) /
                                  static_cast<double>(works[first].micro_batch * devices()));
    }
    return least;
  }

  std::optional<DesignPlan> best_pipeline(const Seconds& seconds) const {
    std::optional<DesignPlan> best;
    for (std::size_t first = 0, last = 0; first < works.size(); first = last) {
      while (last < works.size() && works[last].micro_batch == works[first].micro_batch) ++last;
      planners::PlannerInput input = plan_input(first, last, seconds);
      if (choice.planner == CodesignPlanner::max_load) {
        input = input.without_tensor_parallelism();
        input.most_replicas = 1;
      }
      const auto plan = planners::search_plans(input, planners::ModeChoice::greedy,
                                               works[first].blocks.size() + 1)
                            .plan;
      if (!plan) continue;
      const double step = plan->time_per_sample * static_cast<double>(input.micro_batches);
      if (best && step >= best->seconds) continue;
      const planners::PlannedStage& stage = plan->stages.front();
      bool recompute = false;
      for (const planners::PlannedStage& s : plan->stages)
        recompute = recompute || std::ranges::count(s.modes, std::size_t{1}) > 0;
      best = {
          .seconds = step,
          .micro_batch = works[first].micro_batch,
          .stages = static_cast<std::int64_t>(plan->stages.size()),
          .devices = plan->devices(),
          .tensor =
              mixed(*plan, &planners::PlannedStage::tensor_parallel) ? 0 : stage.tensor_parallel,
          .data = mixed(*plan, &planners::PlannedStage::data_parallel) ? 0 : stage.data_parallel,
          .recompute = recompute};
    }
    return best;
  }
};

DesignPlanner::DesignPlanner(const TrainingJob& job, const CodesignChoice& choice,
                             const Cluster& cluster)
    : parts_(std::make_unique<Parts>(Parts{.choice = choice, .cluster = cluster})) {
  std::vector<std::int64_t> ranks = choice.tensor;
  std::ranges::sort(ranks);
  for (const std::int64_t micro_batch : choice.micro_batch)
    for (const std::int64_t tensor : ranks)
      if (tensor <= parts_->devices() && choice.batch % micro_batch == 0)
        parts_->works.push_back(training_work(job, tensor, micro_batch, cluster));
  if (parts_->works.empty())
    throw InputError(fmt::format("{}codesign: no micro-batch divides a batch of {}",
                                 at(choice.where), choice.batch));
  if (choice.planner == CodesignPlanner::max_load && ranks.front() != 1)
    throw InputError(fmt::format("{}codesign.tensor: max_load supports only 1", at(choice.where)));
  if (choice.planner == CodesignPlanner::data_pipeline_tensor)
    parts_->flush.emplace(parts_->works, choice.batch, cluster);
}
DesignPlanner::~DesignPlanner() = default;

std::optional<DesignPlan> DesignPlanner::best(const Accelerator& a) const {
  const Seconds seconds = parts_->times(a);
  return parts_->flush ? parts_->flush->best(seconds) : parts_->best_pipeline(seconds);
}

double DesignPlanner::least_seconds(const Accelerator& a) const {
  return (parts_->flush ? parts_->least_flushed(a) : parts_->least_shared(a)) *
         (1.0 - 1e-9);  // rounding error
}

std::size_t DesignPlanner::tasks() const {
  std::size_t count = 0;
  for (const TrainingWork& work : parts_->works)
    for (const LayerWork& block : work.kinds)
      for (const auto& pass : block.passes) count += pass.size();
  return count;
}

}  // namespace baechi
