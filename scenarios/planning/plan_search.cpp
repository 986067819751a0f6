#include "scenarios/planning/plan_search.h"

#include <oneapi/tbb/parallel_for.h>

#include <exception>

#include "traces/generator.h"

namespace baechi {

double flushed_step(std::span<const StageSeconds> stages, std::int64_t micro_batches) {
  double all = 0.0, longest = 0.0, last = 0.0;
  for (const StageSeconds& stage : stages) {
    all += stage.passes;
    longest = std::max(longest, stage.passes);
    last = std::max(last, stage.last);
  }
  return all + static_cast<double>(micro_batches - 1) * longest + last;
}

namespace {

/// The graphs of one rank, and the times of their ops: plans that differ in nothing but stages and
/// replicas share one.
class RankGraphs {
 public:
  struct Rank {
    OpGraph graph;
    IdVector<OpId, Duration> times;
  };
  RankGraphs(const TrainingJob& job, const std::vector<ParallelPlan>& plans, const DeviceModel& gpu)
      : job_(job) {
    for (const ParallelPlan& plan : plans) graphs_.try_emplace(key(plan));
    std::vector<std::pair<const ParallelPlan, std::optional<Rank>>*> all;
    for (auto& graph : graphs_) all.push_back(&graph);
    tbb::parallel_for(std::size_t{0}, all.size(), [&](std::size_t i) {
      std::optional<OpGraph> graph;
      try {
        graph = rank_graph(job, all[i]->first);
      } catch (const InputError&) {  // ranks cannot divide the model so
        return;
      }
      IdVector<OpId, Duration> times = roofline_times(*graph, gpu);
      all[i]->second = Rank{std::move(*graph), std::move(times)};
    });
  }
  bool has(const ParallelPlan& plan) const { return graphs_.at(key(plan)).has_value(); }
  const Rank& of(const ParallelPlan& plan) const { return *graphs_.at(key(plan)); }

 private:
  ParallelPlan key(const ParallelPlan& plan) const {
    ParallelPlan rank = plan.of_rank();
    if (copies_embeddings(job_, plan)) rank.pipeline = 2;
    return rank;
  }

  const TrainingJob& job_;
  std::map<ParallelPlan, std::optional<Rank>> graphs_;
};

/// What is known of a plan before its step is simulated.
struct Candidate {
  std::size_t index = 0;                       // in the order of the space
  Bytes needs{};                               // least_memory()
  Duration least{};                            // early_least_step(), or, once the step is built,
  std::shared_ptr<const ParallelStep> step{};  // least_step()

  bool is_built() const { return step != nullptr; }
  friend bool operator<(const Candidate& a, const Candidate& b) {
    return std::pair{a.least, a.index} < std::pair{b.least, b.index};
  }
};

std::vector<Candidate> candidates_of(const TrainingJob& job, const std::vector<ParallelPlan>& plans,
                                     const RankGraphs& graphs, const Machines& machines) {
  const Cluster& cluster = machines.cluster;
  std::vector<Candidate> candidates(plans.size());
  tbb::parallel_for(std::size_t{0}, plans.size(), [&](std::size_t i) {
    const auto& [rank, times] = graphs.of(plans[i]);
    candidates[i] = {.index = i, .needs = least_memory(rank, job, plans[i])};
    if (candidates[i].needs <= cluster.device(DeviceId{}).memory)
      candidates[i].least = early_least_step(rank, times, job, plans[i], cluster);
  });
  return candidates;
}

/// Candidates by least_step(), ties by the order of the space. A step is built only when few
/// candidates have a lower early bound: most steps never are.
class Queue {
 public:
  using Build = std::function<void(Candidate&)>;
  Queue(const std::vector<Candidate>& candidates, Build build)
      : waiting_(candidates.begin(), candidates.end()), build_(std::move(build)) {}

  std::size_t size() const { return waiting_.size(); }
  /// The next ones, at most `count`; none if all are `beaten`.
  std::vector<Candidate> next(std::size_t count, const std::function<bool(Duration)>& beaten) {
    while (!waiting_.empty() && !beaten(waiting_.begin()->least)) {
      const auto end =
          std::ranges::next(waiting_.begin(), static_cast<std::ptrdiff_t>(count), waiting_.end());
      std::vector<Candidate> first(waiting_.begin(), end);
      waiting_.erase(waiting_.begin(), end);
      if (std::ranges::all_of(first, &Candidate::is_built)) return first;
      tbb::parallel_for(std::size_t{0}, first.size(), [&](std::size_t i) {
        if (!first[i].is_built()) build_(first[i]);
      });
      waiting_.insert(first.begin(), first.end());
    }
    return {};
  }

 private:
  std::set<Candidate> waiting_;
  Build build_;
};

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

SimulatedPlan simulated_plan(const ParallelPlan& plan, pipeline::PipelineResult result) {
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
    plan.recompute_layers = space.recompute_layers;
    plan.offload_layers = space.offload_layers;
    plan.count_ends = space.count_ends;
    plan.overlap = space.overlap && plan.sequence;
    plan.overlap_experts = space.overlap_experts && plan.expert > 1;
  }
  return plans;
}

/// Enough for two cores; not by the machine, so that as many plans are simulated everywhere.
constexpr std::size_t plans_at_once = 4;

/// In how many parts stages can divide the model, by the first plan that it can be made for. Throws
/// what is wrong with the first plan if it can be made for none.
std::int64_t parts_of(const TrainingJob& job, const std::vector<ParallelPlan>& plans) {
  std::exception_ptr mistake;
  for (const ParallelPlan& plan : plans) {
    try {
      return most_parts(rank_graph(job, plan));
    } catch (const InputError&) {
      if (!mistake) mistake = std::current_exception();
    }
  }
  std::rethrow_exception(mistake);
}

/// The plans of a space that a model can be divided by, with what is known of them.
struct Considered {
  std::vector<ParallelPlan> plans;
  std::unique_ptr<RankGraphs> graphs;
  std::vector<Candidate> candidates;  // [plans]
};

/// Throws InputError as fastest_plans() does.
Considered considered(const TrainingJob& job, const PlanSpace& space, const Machines& machines) {
  std::vector<ParallelPlan> plans = plans_of(space, machines.devices, job.batch);
  if (plans.empty())
    throw InputError("no plan: " + why_no_plan(space, machines.devices, job.batch));
  const std::int64_t parts = parts_of(job, plans);
  const std::int64_t per_node = devices_of_a_node(machines.cluster);
  std::erase_if(plans, [&](const ParallelPlan& plan) {
    return plan.pipeline * plan.chunks > parts ||
           index(plan.device(plan.pipeline - 1, per_node)) >= machines.cluster.num_devices();
  });
  if (plans.empty())
    throw InputError(fmt::format("no plan: the model has {} parts, fewer than stages", parts));
  auto graphs = std::make_unique<RankGraphs>(job, plans, *machines.gpu);
  std::erase_if(plans, [&](const ParallelPlan& plan) { return !graphs->has(plan); });
  if (plans.empty()) throw InputError("no plan: the model cannot be divided among such ranks");
  std::vector<Candidate> candidates = candidates_of(job, plans, *graphs, machines);
  return {std::move(plans), std::move(graphs), std::move(candidates)};
}

}  // namespace

std::vector<ParallelPlan> plans_of(const PlanSpace& space, std::int64_t devices,
                                   std::int64_t batch) {
  std::vector<ParallelPlan> plans = combinations(space, devices);
  std::set<ParallelPlan> seen;
  std::erase_if(plans, [&](const ParallelPlan& plan) {
    const bool again = plan.chunks > 1 && plan.schedule != space.schedule.front();  // interleaved
    return again || !seen.insert(plan).second || plan.ranks() != devices ||
           !plan.mistake(batch).empty();
  });
  return plans;
}

std::string why_no_plan(const PlanSpace& space, std::int64_t devices, std::int64_t batch) {
  for (const ParallelPlan& plan : combinations(space, devices)) {
    if (plan.ranks() != devices)
      return fmt::format(
          "{} ranks of tensor, context and pipeline parallelism do not divide {} devices",
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
  return simulated_plan(plan, ParallelStep(rank_graph(job, plan), job, plan,
                                           std::make_shared<const Cluster>(std::move(roomy)))
                                  .simulated(*machines.gpu, true));
}

std::vector<SimulatedPlan> smallest_plans(const TrainingJob& job, const PlanSpace& space,
                                          const Machines& machines) {
  auto [plans, graphs, candidates] = considered(job, space, machines);
  std::ranges::sort(candidates, {}, [](const Candidate& c) { return std::pair{c.needs, c.index}; });
  constexpr std::size_t shown = 3, most = 16;  // to simulate: least_memory() is near the peak
  if (candidates.size() > most) candidates.resize(most);
  std::vector<SimulatedPlan> found;
  const auto peak = [](const SimulatedPlan& plan) { return plan.fullest().peak; };
  for (const Candidate& c : candidates) {
    if (found.size() == shown && c.needs > peak(found.back())) break;
    found.push_back(simulated_plan(job, plans[c.index], machines));
    std::ranges::stable_sort(found, {}, peak);
    if (found.size() > shown) found.pop_back();
  }
  return found;
}

PlanAnswer fastest_plans(const TrainingJob& job, const PlanSpace& space, const Machines& machines,
                         std::size_t most, std::atomic<std::size_t>& done) {
  auto [plans, graphs, candidates] = considered(job, space, machines);
  const Bytes memory = machines.cluster.device(DeviceId{}).memory;
  PlanAnswer answer{.fastest = {}, .considered = plans.size()};
  answer.too_large =
      std::erase_if(candidates, [&](const Candidate& c) { return c.needs > memory; });
  done = answer.too_large;
  const auto cluster = std::make_shared<const Cluster>(machines.cluster);  // links of all pairs
  Queue queue(candidates, [&, &plans = plans, &graphs = graphs](Candidate& c) {
    const ParallelPlan& plan = plans[c.index];
    c.step = std::make_shared<const ParallelStep>(graphs->of(plan).graph, job, plan, cluster);
    c.least = least_step(*c.step, *machines.gpu);
  });
  Fastest fastest(most);
  const auto beaten = [&](Duration least) { return fastest.beaten(least); };
  std::vector<pipeline::PipelineResult> results(plans_at_once);
  for (auto next = queue.next(plans_at_once, beaten); !next.empty();
       next = queue.next(plans_at_once, beaten)) {
    tbb::parallel_for(std::size_t{0}, next.size(), [&](std::size_t i) {
      results[i] = next[i].step->simulated(*machines.gpu, true);
    });
    for (std::size_t i = 0; i < next.size(); ++i) {
      ++answer.simulated;
      if (results[i].oom)
        ++answer.out_of_memory;
      else
        fastest.add(next[i].index, simulated_plan(plans[next[i].index], std::move(results[i])));
    }
    done += next.size();
  }
  answer.slower = queue.size();
  done = plans.size();
  answer.fastest = fastest.all();
  return answer;
}

}  // namespace baechi
