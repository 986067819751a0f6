#include "scenarios/planning/plan_search.h"

#include <oneapi/tbb/parallel_for.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "sim/error.h"
#include "traces/generator.h"

namespace baechi {
namespace {

/// The graphs of one rank: plans that differ in nothing but stages and replicas share one.
class RankGraphs {
 public:
  RankGraphs(const TrainingJob& job, const std::vector<ParallelPlan>& plans) {
    for (const ParallelPlan& plan : plans) graphs_.try_emplace(plan.of_rank());
    std::vector<std::pair<const ParallelPlan, OpGraph>*> all;
    for (auto& graph : graphs_) all.push_back(&graph);
    tbb::parallel_for(std::size_t{0}, all.size(),
                      [&](std::size_t i) { all[i]->second = rank_graph(job, all[i]->first); });
  }
  const OpGraph& of(const ParallelPlan& plan) const { return graphs_.at(plan.of_rank()); }

 private:
  std::map<ParallelPlan, OpGraph> graphs_;
};

/// What is known of a plan before its step is simulated.
struct Candidate {
  std::size_t index = 0;  // in the order of the space
  bool fits = false;
  Duration least{};
};

std::vector<Candidate> candidates_of(const TrainingJob& job, const std::vector<ParallelPlan>& plans,
                                     const RankGraphs& graphs, const Machines& machines) {
  const Cluster& cluster = machines.cluster;
  std::vector<Candidate> candidates(plans.size());
  tbb::parallel_for(std::size_t{0}, plans.size(), [&](std::size_t i) {
    const OpGraph& rank = graphs.of(plans[i]);
    candidates[i] = {
        .index = i, .fits = least_memory(rank, job, plans[i]) <= cluster.device(DeviceId{}).memory};
    if (candidates[i].fits)
      candidates[i].least = least_step(ParallelStep(rank, job, plans[i], cluster), *machines.gpu);
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

SimulatedPlan made(const ParallelPlan& plan, pipeline::PipelineResult result) {
  return {.plan = plan,
          .step = result.makespan,
          .bubble = result.bubble,
          .stages = std::move(result.stages)};
}

/// Every plan once with each of the values.
template <class T, class Value>
void choose(std::vector<ParallelPlan>& plans, T ParallelPlan::* member,
            const std::vector<Value>& values) {
  std::vector<ParallelPlan> all;
  for (ParallelPlan plan : plans)
    for (const Value& value : values) {
      plan.*member = value;
      all.push_back(plan);
    }
  plans = std::move(all);
}

/// All of them, right or wrong; replicas are as many as use the devices up, else one.
std::vector<ParallelPlan> combinations(const PlanSpace& space, std::int64_t devices) {
  std::vector<ParallelPlan> plans{{}};
  choose(plans, &ParallelPlan::tensor, space.tensor);
  choose(plans, &ParallelPlan::sequence, space.sequence);
  choose(plans, &ParallelPlan::overlap, space.overlap);
  choose(plans, &ParallelPlan::context, space.context);
  choose(plans, &ParallelPlan::expert, space.expert);
  choose(plans, &ParallelPlan::pipeline, space.pipeline);
  choose(plans, &ParallelPlan::chunks, space.chunks);
  choose(plans, &ParallelPlan::schedule, space.schedule);
  choose(plans, &ParallelPlan::micro_batch, space.micro_batch);
  choose(plans, &ParallelPlan::precision, space.precision);
  choose(plans, &ParallelPlan::recompute, space.recompute);
  choose(plans, &ParallelPlan::zero, space.zero);
  choose(plans, &ParallelPlan::group, space.group);
  for (ParallelPlan& plan : plans) {
    if (devices % plan.ranks() == 0) plan.data = devices / plan.ranks();
    if (plan.zero < 2) plan.send = space.send[static_cast<std::size_t>(plan.zero)];
  }
  return plans;
}

/// Enough for two cores; not by the machine, so that as many plans are simulated everywhere.
constexpr std::size_t at_once = 4;

}  // namespace

std::vector<ParallelPlan> plans_of(const PlanSpace& space, std::int64_t devices,
                                   std::int64_t batch) {
  std::vector<ParallelPlan> plans = combinations(space, devices);
  std::erase_if(plans, [&](const ParallelPlan& plan) {
    return plan.ranks() != devices || !plan.mistake(batch).empty();
  });
  return plans;
}

std::string why_no_plan(const PlanSpace& space, std::int64_t devices, std::int64_t batch) {
  for (const ParallelPlan& plan : combinations(space, devices)) {
    if (plan.ranks() != devices)
      return fmt::format(
          "{} ranks of tensor, context and pipeline parallelism do not divide {} "
          "devices",
          plan.ranks(), devices);
    if (std::string why = plan.mistake(batch); !why.empty()) return why;
  }
  return "no plan";
}

const pipeline::StageUse& SimulatedPlan::fullest() const {
  return *std::ranges::max_element(stages, {}, &pipeline::StageUse::peak);
}

SimulatedPlan simulated_plan(const TrainingJob& job, const ParallelPlan& plan,
                             const Machines& machines) {
  Cluster roomy = machines.cluster;
  for (const DeviceId d : roomy.devices()) roomy.set_memory(d, Bytes{std::int64_t{1} << 60});
  return made(plan, ParallelStep(rank_graph(job, plan), job, plan, std::move(roomy))
                        .simulated(*machines.gpu, true));
}

PlanAnswer fastest_plans(const TrainingJob& job, const PlanSpace& space, const Machines& machines,
                         std::size_t most, std::atomic<std::size_t>& done) {
  std::vector<ParallelPlan> plans = plans_of(space, machines.devices, job.batch);
  if (!plans.empty()) {
    const std::int64_t parts = most_parts(rank_graph(job, plans[0]));
    const std::int64_t per_node = devices_of_a_node(machines.cluster);
    std::erase_if(plans, [&](const ParallelPlan& plan) {
      return plan.pipeline * plan.chunks > parts ||
             index(plan.device(plan.pipeline - 1, per_node)) >= machines.cluster.num_devices();
    });
  }
  if (plans.empty())
    throw InputError(fmt::format("no plan divides a batch of {} among all {} devices", job.batch,
                                 machines.devices));
  const RankGraphs graphs(job, plans);
  std::vector<Candidate> candidates = candidates_of(job, plans, graphs, machines);
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
      results[i] =
          ParallelStep(graphs.of(plan), job, plan, machines.cluster).simulated(*machines.gpu, true);
    });
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t index = candidates[begin + i].index;
      ++answer.simulated;
      if (results[i].oom)
        ++answer.out_of_memory;
      else
        fastest.add(index, made(plans[index], std::move(results[i])));
    }
    done += count;
  }
  done = plans.size();
  answer.fastest = fastest.all();
  return answer;
}

}  // namespace baechi
