#include "scenarios/planning/plan_search.h"

#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <tuple>

#include "sim/error.h"
#include "traces/generator.h"

namespace baechi {
namespace {

/// The graphs of one rank: plans that differ in nothing but stages and replicas share one.
class RankGraphs {
 public:
  RankGraphs(const TrainingJob& job, const std::vector<ParallelPlan>& plans) {
    for (const ParallelPlan& plan : plans) graphs_.try_emplace(key(plan), plan, OpGraph{});
    std::vector<std::pair<ParallelPlan, OpGraph>*> all;
    for (auto& [k, graph] : graphs_) all.push_back(&graph);
    tbb::parallel_for(std::size_t{0}, all.size(),
                      [&](std::size_t i) { all[i]->second = rank_graph(job, all[i]->first); });
  }
  const OpGraph& of(const ParallelPlan& plan) const { return graphs_.at(key(plan)).second; }

 private:
  using Key = std::tuple<std::int64_t, std::int64_t, bool, std::string>;
  static Key key(const ParallelPlan& plan) {
    return {plan.micro_batch, plan.tensor, plan.recompute, plan.precision};
  }
  std::map<Key, std::pair<ParallelPlan, OpGraph>> graphs_;
};

/// What is known of a plan before its step is simulated.
struct Candidate {
  std::size_t index = 0;  // in the order of the space
  bool fits = false;
  Duration least{};
};

std::vector<Candidate> candidates_of(const TrainingJob& job, const std::vector<ParallelPlan>& plans,
                                     const RankGraphs& graphs, const Cluster& cluster,
                                     const DeviceModel& gpu) {
  std::vector<Candidate> candidates(plans.size());
  tbb::parallel_for(std::size_t{0}, plans.size(), [&](std::size_t i) {
    const OpGraph& rank = graphs.of(plans[i]);
    candidates[i] = {
        .index = i, .fits = least_memory(rank, job, plans[i]) <= cluster.device(DeviceId{}).memory};
    if (candidates[i].fits)
      candidates[i].least = least_step(ParallelStep(rank, job, plans[i], cluster), gpu);
  });
  return candidates;
}

/// Keeps the `most` fastest, ties by the order of the space.
class Fastest {
 public:
  explicit Fastest(std::size_t most) : most_(most) {}

  bool beaten(Duration least) const {
    return kept_.size() == most_ && least > kept_.rbegin()->first.first;
  }
  void add(std::size_t index, SimulatedPlan plan) {
    kept_.emplace(std::pair{plan.step, index}, std::move(plan));
    if (kept_.size() > most_) kept_.erase(std::prev(kept_.end()));
  }
  std::vector<SimulatedPlan> all() const {
    std::vector<SimulatedPlan> plans;
    for (const auto& [key, plan] : kept_) plans.push_back(plan);
    return plans;
  }

 private:
  std::size_t most_;
  std::map<std::pair<Duration, std::size_t>, SimulatedPlan> kept_;
};

const pipeline::StageUse& fullest(const pipeline::PipelineResult& result) {
  return *std::ranges::max_element(result.stages, {}, &pipeline::StageUse::peak);
}

/// Enough for two cores; not by the machine, so that as many plans are simulated everywhere.
constexpr std::size_t at_once = 4;

}  // namespace

std::vector<ParallelPlan> plans_of(const PlanSpace& space, std::int64_t devices,
                                   std::int64_t batch) {
  std::vector<ParallelPlan> plans;
  for (const std::int64_t tensor : space.tensor)
    for (const std::int64_t stages : space.pipeline)
      for (const std::int64_t micro_batch : space.micro_batch)
        for (const std::string& precision : space.precision)
          for (const bool recompute : space.recompute)
            for (const int zero : space.zero) {
              if (devices % (tensor * stages) != 0) continue;
              const ParallelPlan plan{
                  .tensor = tensor,
                  .data = devices / (tensor * stages),
                  .pipeline = stages,
                  .micro_batch = micro_batch,
                  .recompute = recompute,
                  .precision = precision,
                  .zero = zero,
                  .send = zero < 2 ? space.send[static_cast<std::size_t>(zero)] : Sending::by_mode};
              if (plan.micro_batches(batch) == 0 || (zero > 0 && plan.data == 1)) continue;
              plans.push_back(plan);
            }
  return plans;
}

PlanAnswer fastest_plans(const TrainingJob& job, const PlanSpace& space, const Cluster& cluster,
                         const DeviceModel& gpu, std::size_t most, std::atomic<std::size_t>& done) {
  std::vector<ParallelPlan> plans =
      plans_of(space, static_cast<std::int64_t>(cluster.num_devices()), job.batch);
  if (!plans.empty()) {
    const std::int64_t layers = std::max<std::int64_t>(1, layers_of(rank_graph(job, plans[0])));
    std::erase_if(plans, [&](const ParallelPlan& plan) { return plan.pipeline > layers; });
  }
  if (plans.empty())
    throw InputError(fmt::format("no plan divides a batch of {} among all {} devices", job.batch,
                                 cluster.num_devices()));
  const RankGraphs graphs(job, plans);
  std::vector<Candidate> candidates = candidates_of(job, plans, graphs, cluster, gpu);
  PlanAnswer answer{.fastest = {}, .considered = plans.size()};
  answer.too_large = std::erase_if(candidates, [](const Candidate& c) { return !c.fits; });
  done = answer.too_large;
  std::ranges::sort(candidates, {}, [](const Candidate& c) { return std::pair{c.least, c.index}; });
  Fastest fastest(most);
  std::vector<pipeline::PipelineResult> results(at_once);
  for (std::size_t begin = 0; begin < candidates.size(); begin += at_once) {
    if (fastest.beaten(candidates[begin].least)) {
      answer.slower = candidates.size() - begin;
      break;
    }
    const std::size_t count = std::min(at_once, candidates.size() - begin);
    tbb::parallel_for(std::size_t{0}, count, [&](std::size_t i) {
      const ParallelPlan& plan = plans[candidates[begin + i].index];
      results[i] = ParallelStep(graphs.of(plan), job, plan, cluster).simulated(gpu, true);
    });
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t index = candidates[begin + i].index;
      const pipeline::PipelineResult& result = results[i];
      ++answer.simulated;
      if (result.oom)
        ++answer.out_of_memory;
      else
        fastest.add(index, {.plan = plans[index],
                            .step = result.makespan,
                            .bubble = result.bubble,
                            .fullest = fullest(result)});
    }
    done += count;
  }
  done = plans.size();
  answer.fastest = fastest.all();
  return answer;
}

}  // namespace baechi
