#include "scenarios/planning/machines.h"

#include <fmt/ranges.h>

#include "placers/files/placement_file.h"
#include "scenarios/read/choice_text.h"
#include "scenarios/read/sections.h"
#include "scenarios/read/yaml.h"

namespace baechi {
namespace {

std::vector<std::int64_t> powers_of_two(std::int64_t most) {
  std::vector<std::int64_t> powers;
  for (std::int64_t n = 1; n <= most; n *= 2) powers.push_back(n);
  return powers;
}

std::vector<std::int64_t> divisors(std::int64_t of) {
  std::vector<std::int64_t> all;
  for (std::int64_t n = 1; n <= of; ++n)
    if (of % n == 0) all.push_back(n);
  return all;
}

ClusterChoice nodes_of_kind(const std::string& kind, std::int64_t count) {
  Mistakes mistakes;
  const ClusterChoice choice = read_cluster(
      parse_yaml(fmt::format("nodes: {{kind: {}, count: {}}}", kind, count), "--nodes"), "",
      built_in_devices(), mistakes);
  mistakes.throw_if_any();
  return choice;
}

/// Leaves the first devices of the node.
void take_part(ClusterChoice& cluster, std::size_t count) {
  Node& node = cluster.nodes.front().node;
  std::vector<std::uint32_t> wires;
  for (std::size_t a = 0; a < count && !node.wires.empty(); ++a)
    for (std::size_t b = 0; b < count; ++b) wires.push_back(node.wires_between(a, b));
  node.wires = std::move(wires);
  node.devices = static_cast<std::uint32_t>(count);
  cluster.devices.front().count = count;
}

/// The divisors of `most` that can share the model's tensors.
std::vector<std::int64_t> possible_ranks(const TrainingJob& job, std::int64_t most) {
  std::vector<std::int64_t> ranks = divisors(most);
  rank_graph(job, {});  // throws if the model itself is wrong
  std::erase_if(ranks, [&](std::int64_t n) {
    try {
      rank_graph(job, {.tensor = n});
      return false;
    } catch (const InputError&) {
      return true;
    }
  });
  return ranks;
}

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

ClusterChoice cluster_of_nodes(const std::string& kind, std::int64_t devices) {
  const auto& kinds = built_in_devices().nodes;
  if (!kinds.contains(kind)) throw InputError("--nodes: " + not_one_of(kind, keys_of(kinds)));
  ClusterChoice one = nodes_of_kind(kind, 1);
  const auto per_node = static_cast<std::int64_t>(one.devices.front().count);
  if (devices < per_node) {
    take_part(one, static_cast<std::size_t>(devices));
    return one;
  }
  if (devices % per_node != 0)
    throw InputError(
        fmt::format("--devices: {} is neither a part nor a multiple of the {} devices of {}",
                    devices, per_node, kind));
  const auto most = static_cast<std::int64_t>(most_devices);
  return nodes_of_kind(kind, std::min(devices, most) / per_node);
}

std::shared_ptr<const DeviceModel> device_kind(const std::string& name, std::string_view flag) {
  return device_of({name, "", {}}, std::string(flag));
}

void require_one_kind(const ClusterChoice& cluster) {
  const DeviceChoice& first = cluster.devices.front();
  for (const DeviceChoice& devices : cluster.devices)
    if (devices.kind != first.kind || devices.memory != first.memory || devices.speed != 1.0)
      throw InputError(
          "plan needs devices of one kind and memory, and of speed 1: every rank does the same");
}

PlanSpace with_defaults(PlanSpace space, const TrainingJob& job, const Machines& machines) {
  if (space.tensor.empty()) space.tensor = possible_ranks(job, devices_of_a_node(machines.cluster));
  if (space.pipeline.empty()) space.pipeline = divisors(machines.devices);
  if (space.micro_batch.empty())
    space.micro_batch = powers_of_two(std::min<std::int64_t>(64, job.batch));
  Options given = job.options;
  if (const Options::Value* dtype = given.raw("dtype", "");
      dtype != nullptr && space.precision == PlanSpace{}.precision)
    space.precision = {dtype->text};
  return space;
}

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
