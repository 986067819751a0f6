#include "scenarios/studies/codesign/codesign.h"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "scenarios/run/build.h"
#include "scenarios/studies/codesign/area_file.h"
#include "sim/error.h"

namespace baechi {

std::vector<std::size_t> CodesignResult::ranked() const {
  std::vector<std::size_t> ranks(answer.visited.size());
  std::iota(ranks.begin(), ranks.end(), std::size_t{0});
  std::erase_if(ranks, [&](std::size_t i) { return !answer.visited[i].plan; });
  std::ranges::stable_sort(ranks, {}, [&](std::size_t i) {
    return std::pair(answer.visited[i].plan->seconds, answer.visited[i].sized.area);
  });
  return ranks;
}

std::optional<double> CodesignResult::gain() const {
  if (!answer.best || !answer.reference || !answer.visited[*answer.reference].plan)
    return std::nullopt;
  return answer.visited[*answer.reference].plan->seconds /
         answer.visited[*answer.best].plan->seconds;
}

CodesignResult codesign_of(const ScenarioFile& file, const Watch& watch) {
  if (!file.codesign) throw InputError(fmt::format("{}: it has no section 'codesign'", file.path));
  const CodesignChoice& choice = *file.codesign;
  if (file.graphs.size() != 1 || file.clusters.size() != 1)
    throw InputError(
        fmt::format("{}: codesign takes one graph and one cluster, without a sweep", file.path));
  const GraphChoice& graph = file.graphs.front();
  if (!graph.generate)
    throw InputError(
        fmt::format("{}codesign needs a graph that is generated: plans choose its "
                    "batch and its ranks",
                    at(graph.where)));
  const TrainingJob job{
      .generator = graph.generate->name, .options = graph.generate->options, .batch = choice.batch};
  const ClusterChoice& devices = file.clusters.front();
  for (const DeviceChoice& d : devices.devices)
    if (d.memory != devices.devices.front().memory)
      throw InputError(
          fmt::format("{}: codesign needs devices of equal memory: all become the same accelerator",
                      file.path));
  const Cluster cluster = make_cluster(devices);
  const DesignList list = designs_within(choice, read_area_table(choice.areas));
  std::atomic<std::size_t> done{0};
  const auto watching = watch(done, list.designs.size());
  const DesignPlanner planner(job, choice, cluster);
  return {.answer = search_designs(planner, list, choice, done),
          .combinations = list.combinations,
          .limit = list.limit,
          .batch = choice.batch};
}

}  // namespace baechi
