#include "scenarios/planning/plan_scenario.h"

#include <algorithm>

#include "placers/files/placement_file.h"
#include "scenarios/read/choice_text.h"

namespace baechi {
namespace {

/// "gpt:layers=4,tied=true" as "generate: gpt, layers: 4, tied: true", or with tied: false.
std::string graph_text(std::string_view model, bool untied) {
  const std::size_t colon = std::min(model.find(':'), model.size());
  std::string text = fmt::format("generate: {}", model.substr(0, colon));
  if (colon == model.size()) return untied ? text + ", tied: false" : text;
  for (const std::string& option : split_at_commas(model.substr(colon + 1)))
    if (const std::size_t equals = option.find('='); !untied || option.substr(0, equals) != "tied")
      text += fmt::format(", {}: {}", option.substr(0, equals), option.substr(equals + 1));
  return untied ? text + ", tied: false" : text;
}

std::string data_parallel_text(const DataParallelOptions& o) {
  std::string text =
      fmt::format("replicas: {}, nodes: {}, mode: {}", o.replicas, o.nodes, to_text(o.mode));
  if (o.send != Sending::by_mode) text += fmt::format(", send: {}", to_text(o.send));
  if (o.group > 0) text += fmt::format(", group: {}", o.group);
  if (o.expert > 1) text += fmt::format(", expert: {}", o.expert);
  if (o.sharing > 1) text += fmt::format(", sharing: {}", o.sharing);
  return text;
}

}  // namespace

std::string plan_scenario(std::string_view model, const TrainingJob& job, const ParallelPlan& plan,
                          const PlanNodes& nodes, std::string_view placement) {
  const std::int64_t micro_batches = plan.micro_batches(job.batch);
  std::string text = fmt::format("name: plan\ngraph: {{{}, batch: {}",
                                 graph_text(model, copies_embeddings(job, plan)), plan.micro_batch);
  if (plan.tensor > 1) text += fmt::format(", tensor: {}", plan.tensor);
  if (plan.context > 1) text += fmt::format(", context: {}", plan.context);
  if (plan.expert > 1) text += fmt::format(", expert: {}", plan.expert);
  if (plan.sequence) text += ", sequence_parallel: true";
  if (plan.splits_backward()) text += ", split_backward: true";
  if (plan.recompute == Recomputing::selective) text += ", recompute_attention: true";
  text += "}\ntransforms:\n";
  if (plan.precision != "fp32")
    text += fmt::format("  - {{precision: {{to: {}}}}}\n", plan.precision);
  if (plan.recompute == Recomputing::full) text += "  - recompute\n";
  if (plan.overlap_experts)
    text += fmt::format("  - {{overlap_exchanges: {{tokens: {}, experts: true}}}}\n", plan.overlap);
  else if (plan.overlap)
    text += "  - overlap_exchanges\n";
  text += fmt::format("  - {{host: {{per: pass, launch: {} ns}}}}\n", nodes.gpu->host_op.count());
  if (micro_batches > 1) text += "  - accumulate\n";
  if (plan.data * plan.context > 1)
    text += fmt::format("  - {{data_parallel: {{{}}}}}\n",
                        data_parallel_text(plan.data_parallel(nodes.devices)));
  return text +
         fmt::format(
             "cluster:\n"
             "  nodes: {{kind: {}, count: {}, devices: {{count: {}, kind: {}, memory: {} B}}}}\n"
             "engine: {{transfers: duplex}}\n"
             "placers: [{}]\n"
             "measure: {{pipeline: {{schedule: {}, micro_batches: {}}}}}\n",
             nodes.kind, nodes.count, nodes.devices, nodes.gpu->name, nodes.memory.count,
             plan.pipeline == 1 ? std::string("single")
                                : fmt::format("{{expert: {{file: {}}}}}", placement),
             plan.passes().name, micro_batches);
}

std::string placement_of_stages(const TrainingJob& job, const ParallelPlan& plan,
                                const Cluster& cluster) {
  const OpGraph graph = rank_graph(job, plan);
  return placement_json({.device = devices_of_stages(graph, plan, devices_of_a_node(cluster))},
                        graph, "plan", cluster.num_devices());
}

}  // namespace baechi
