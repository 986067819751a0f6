#include "scenarios/planning/machines.h"

#include <fmt/ranges.h>

#include <algorithm>

#include "scenarios/read/device_table.h"
#include "scenarios/read/sections.h"
#include "scenarios/read/yaml.h"
#include "sim/error.h"
#include "sim/find_entry.h"

namespace baechi {
namespace {

std::vector<std::int64_t> powers_of_two(std::int64_t most) {
  std::vector<std::int64_t> powers;
  for (std::int64_t n = 1; n <= most; n *= 2) powers.push_back(n);
  return powers;
}

/// The entry of `kinds`. Throws InputError, which begins with `flag`.
template <class Kinds>
const auto& kind_of(const Kinds& kinds, const std::string& name, std::string_view flag) {
  if (const auto found = kinds.find(name); found != kinds.end()) return found->second;
  std::vector<std::string> known;
  for (const auto& [word, unused] : kinds) known.push_back(word);
  throw InputError(fmt::format("{}: {}", flag, not_one_of(name, known)));
}

ClusterChoice nodes_of_kind(const std::string& kind, std::int64_t count) {
  Mistakes mistakes;
  const ClusterChoice choice = read_cluster(
      parse_yaml(fmt::format("nodes: {{kind: {}, count: {}}}", kind, count), "--nodes"), "",
      built_in_devices(), mistakes);
  mistakes.throw_if_any();
  return choice;
}

/// The numbers of ranks 1, 2, 4, ... that can share the model's tensors.
std::vector<std::int64_t> possible_ranks(const TrainingJob& job, std::int64_t most) {
  std::vector<std::int64_t> ranks = powers_of_two(most);
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

ClusterChoice cluster_of_nodes(const std::string& kind, const std::string& devices) {
  kind_of(built_in_devices().nodes, kind, "--nodes");
  const auto count = parse_number<std::int64_t>(devices);
  const auto per_node = static_cast<std::int64_t>(nodes_of_kind(kind, 1).devices.front().count);
  if (!count || *count < 1 || *count % per_node != 0)
    throw InputError(fmt::format("--devices: '{}' is not a multiple of the {} devices of {}",
                                 devices, per_node, kind));
  if (std::cmp_greater(*count, most_devices))
    throw InputError(
        fmt::format("--devices: a cluster has at most {}, not {}", most_devices, *count));
  return nodes_of_kind(kind, *count / per_node);
}

std::shared_ptr<const DeviceModel> device_kind(const std::string& name, std::string_view flag) {
  return kind_of(built_in_devices().devices, name, flag);
}

void require_one_kind(const ClusterChoice& cluster) {
  for (const DeviceChoice& devices : cluster.devices)
    if (devices.kind != cluster.devices.front().kind)
      throw InputError("plan needs devices of one kind: every rank does the same");
}

PlanSpace with_defaults(PlanSpace space, const TrainingJob& job, const Cluster& cluster) {
  const auto devices = static_cast<std::int64_t>(cluster.num_devices());
  const std::int64_t per_node =
      cluster.num_nodes() == 0 ? devices : devices / static_cast<std::int64_t>(cluster.num_nodes());
  if (space.tensor.empty()) space.tensor = possible_ranks(job, per_node);
  if (space.pipeline.empty()) space.pipeline = powers_of_two(devices);
  if (space.micro_batch.empty())
    space.micro_batch = powers_of_two(std::min<std::int64_t>(64, job.batch));
  return space;
}

}  // namespace baechi
