#include "placers/pipeline_cuts.h"

#include "placers/line_cuts.h"

namespace baechi {

std::vector<PipelineCuts> cut_line(const Problem& problem, const WholeModules& modules,
                                   const IdVector<DeviceId, Bytes>& limit) {
  const std::vector<DeviceClass> classes = device_classes(problem);
  LineCosts costs(modules.num_whole, classes.size());
  // Ops of the divided modules are with the first whole module that shares their device.
  const auto block = [&](std::uint32_t m) { return m < modules.num_whole ? m : 0; };
  for (const OpId v : problem.graph.ops()) costs.add(problem, classes, v, block(modules.of[v]));
  costs.sum_up();
  std::vector<PipelineCuts> result;
  for (const LineCuts& cuts : cut_stretches(costs, classes, limit, LineGoal::longest)) {
    PipelineCuts& pipeline = result.emplace_back();
    pipeline.longest = Duration(cuts.value);
    for (std::uint32_t m = 0; m < modules.names.size(); ++m) {
      pipeline.of_module.push_back(cuts.of_block[block(m)]);
      if (m >= modules.num_whole || (m > 0 && cuts.of_block[m] == cuts.of_block[m - 1])) continue;
      pipeline.first.push_back(m);
      pipeline.device.push_back(cuts.of_block[m]);
    }
  }
  return result;
}

}  // namespace baechi
