#include "scenarios/planning/plan_scenario.h"

#include <algorithm>

#include "placers/files/placement_file.h"
#include "scenarios/read/choice_text.h"
#include "scenarios/read/tree.h"

namespace baechi {
namespace {

/// "gpt:length=64,dropout=false" as "generate: gpt, length: 64, dropout: false", but for options
/// that `others` has.
std::string graph_text(std::string_view model,
                       const std::vector<std::pair<std::string, Options::Value>>& others) {
  const std::size_t colon = std::min(model.find(':'), model.size());
  std::string text = fmt::format("generate: {}", model.substr(0, colon));
  if (colon < model.size())
    for (const std::string& option : split_at_commas(model.substr(colon + 1))) {
      const std::size_t equals = option.find('=');
      const std::string key = option.substr(0, equals);
      if (std::ranges::find(others, key, &std::pair<std::string, Options::Value>::first) ==
          others.end())
        text += fmt::format(", {}: {}", key, option.substr(equals + 1));
    }
  for (const auto& [key, value] : others) text += fmt::format(", {}: {}", key, one_line(value));
  return text;
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
  std::vector<NamedTransform> transforms;
  rank_graph(job, plan, &transforms);
  auto of_graph = rank_options(job, plan);
  if (copies_embeddings(job, plan))
    of_graph.insert(of_graph.begin(), {"tie_word_embeddings", Options::Value{"false", ""}});
  std::string text = fmt::format("name: plan\ngraph: {{{}", graph_text(model, of_graph));
  text += "}\ntransforms:\n";
  for (const auto& [name, options] : transforms)
    text += options.children.empty() ? fmt::format("  - {}\n", name)
                                     : fmt::format("  - {{{}: {}}}\n", name, one_line(options));
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
