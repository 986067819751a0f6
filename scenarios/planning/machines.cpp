#include "scenarios/planning/machines.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "scenarios/read/device_table.h"
#include "scenarios/read/sections.h"
#include "scenarios/read/yaml.h"
#include "sim/error.h"
#include "sim/options.h"

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

}  // namespace

ClusterChoice cluster_of_nodes(const std::string& kind, std::int64_t devices) {
  const auto& kinds = built_in_devices().nodes;
  if (!kinds.contains(kind)) {
    std::vector<std::string> known;
    for (const auto& [word, unused] : kinds) known.push_back(word);
    throw InputError("--nodes: " + not_one_of(kind, known));
  }
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
  return space;
}

}  // namespace baechi
