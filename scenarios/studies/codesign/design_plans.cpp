#include "scenarios/studies/codesign/design_plans.h"

#include "placers/planners/stages_program.h"
#include "scenarios/planning/plan_search.h"

namespace baechi {
namespace {

/// The block of each op: 0 before all layers, layers + 1 after them. [num_ops]
IdVector<OpId, std::size_t> block_of_ops(const OpGraph& graph, std::int64_t layers) {
  IdVector<OpId, std::size_t> block;
  for (const std::int64_t layer : layer_of_ops(graph, layers))
    block.push_back(static_cast<std::size_t>(layer + 1));
  return block;
}

void add_layer_tasks(const OpGraph& graph, const IdVector<OpId, std::size_t>& block,
                     std::vector<LayerWork>& works) {
  std::vector<std::array<std::vector<OpId>, 3>> ops(works.size());
  for (const OpId v : graph.ops())
    ops[block[v]][static_cast<std::size_t>(graph.op(v).phase)].push_back(v);
  for (std::size_t b = 0; b < works.size(); ++b)
    for (std::size_t phase = 0; phase < 3; ++phase)
      works[b].passes[phase] = core_tasks(graph, ops[b][phase]);
}

void add_sums(const OpGraph& graph, const IdVector<OpId, std::size_t>& block,
              const Cluster& cluster, std::vector<LayerWork>& works) {
  for (const Collective& c : graph.collectives()) {
    const auto phase = static_cast<std::size_t>(graph.op(c.first).phase);
    works[block[c.first]].sums[std::min<std::size_t>(phase, 1)] +=
        cluster.collectives().time(c, std::array{DeviceId{}}, cluster);
  }
}

void add_sizes(const OpGraph& graph, const IdVector<OpId, std::size_t>& block,
               std::vector<LayerWork>& works) {
  for (const OpId v : graph.ops()) {
    const Op& op = graph.op(v);
    LayerWork& work = works[block[v]];
    work.weights += op.persistent;
    if (op.phase == Phase::backward) work.gradients += op.persistent;
    if (op.phase != Phase::forward) continue;
    for (const TensorId t : graph.outputs(v)) {
      bool backward = false;
      std::vector<std::size_t> later;  // blocks that read it, forward
      for (const EdgeId e : graph.readers(t)) {
        const OpId reader = graph.edge(e).dst;
        backward = backward || graph.op(reader).phase == Phase::backward;
        if (graph.op(reader).phase == Phase::forward && block[reader] != block[v])
          later.push_back(block[reader]);
      }
      if (backward) work.kept += graph.tensor(t).held();
      std::ranges::sort(later);
      later.erase(std::ranges::unique(later).begin(), later.end());
      for (const std::size_t b : later) works[b].input += graph.tensor(t).copied();
    }
  }
}

using exact::BundleId;
using Seconds = std::vector<std::vector<LayerSeconds>>;  // [works][kinds]

double in_seconds(Duration time) { return static_cast<double>(time.count()) * 1e-9; }

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

double to_seconds(Duration time) { return to_us(time) / 1e6; }

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

TrainingWork training_work(const TrainingJob& job, std::int64_t tensor, std::int64_t micro_batch,
                           const Cluster& cluster) {
  TrainingJob apart = job;
  apart.options.set("kernels", {"fuse_modules=false", {}, {}});
  ParallelPlan plan{.tensor = tensor,
                    .micro_batch = micro_batch,
                    .recompute = Recomputing::off,
                    .precision = "fp32"};
  const OpGraph shapes = rank_graph(apart, plan);
  plan.precision = "fp16";
  const OpGraph sizes = rank_graph(apart, plan);
  const std::int64_t layers = layers_of(shapes);
  if (layers == 0) throw InputError(fmt::format("{}: it has no layers", job.generator));

  std::vector<LayerWork> works(static_cast<std::size_t>(layers) + 2);
  add_layer_tasks(shapes, block_of_ops(shapes, layers), works);
  const IdVector<OpId, std::size_t> block = block_of_ops(sizes, layers);
  add_sums(sizes, block, cluster, works);
  add_sizes(sizes, block, works);
  TrainingWork result{.tensor = tensor, .micro_batch = micro_batch, .kinds = {}, .blocks = {}};
  for (LayerWork& work : works) {
    const auto known = std::ranges::find(result.kinds, work);
    result.blocks.push_back(static_cast<std::uint32_t>(known - result.kinds.begin()));
    if (known == result.kinds.end()) result.kinds.push_back(std::move(work));
  }
  return result;
}

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
