/// Reads and writes the placement format `baechi-placement` 1: each op's device, and the order.
///
/// {"format": "baechi-placement", "version": 1, "graph": "toy", "devices": 2,
///  "placement": {"a": 0, "b": 1}, "order": ["a", "b"]}
///
/// Optional keys: `graph`, `devices`, `order`, and the keys that `baechi place --format json` adds.
/// `id` is that of the problem that an external program answers. Of `facts` those of replicas are
/// read (sim/objective/replicas.h). Any other key must begin with x-.
#pragma once

#include "sim/problem/problem.h"

namespace baechi {

/// The largest placement file that is read, in bytes: enough for the names of 10 million ops.
inline constexpr std::size_t most_placement_bytes = std::size_t{1} << 30U;

/// The placement for `graph` on a cluster of `num_devices` in `text`, the content of the file at
/// `path`. `order` becomes priorities; ops that it does not list come last. `detail` is kept. With
/// `problem`, the text must repeat this problem id as `id`. Throws InputError with path:line:column
/// and all mistakes at once if
/// - the file is no placement file,
/// - it names an op that the graph does not have,
/// - an op has no device, or
/// - a device or `devices` is beyond the cluster.
/// Throws InfeasibleError if `status` is that of a placer that found no placement.
Placement parse_placement(const std::string& text, const std::string& path, const OpGraph& graph,
                          std::size_t num_devices,
                          std::optional<std::int64_t> problem = std::nullopt);

/// The file's `order`: ops by descending priority, ties by id. Empty without priorities.
std::vector<OpId> placement_order(const Placement& placement, const OpGraph& graph);

/// `placement` as the text of a placement file, with the facts of replicas.
std::string placement_json(const Placement& placement, const OpGraph& graph,
                           std::string_view graph_name, std::size_t num_devices);

/// Writes placement_json() to `path`, atomically: to a temporary file that is then renamed. Throws
/// InputError if the file cannot be written.
void write_placement(const std::string& path, const Placement& placement, const OpGraph& graph,
                     std::string_view graph_name, std::size_t num_devices);

/// Whether `text` has the form of a split.
bool is_split(const std::string& text);

/// The split in `text` as a placement; `path` is the name in messages. The format:
///
/// {"fpgas": [{"nodes": [1, 2]}, ...], "cpus": [{"nodes": [...]}]}
///
/// - Devices: the i-th entry of "fpgas" is the i-th accelerator, the i-th entry of "cpus" the i-th
///   core.
/// - Nodes: node 7 is the op called `node7` or `n7`. The authors number backward nodes after the
///   forward nodes: in a training graph with 4 ops called node<i>, node 7 is `node3grad`. Graphs
///   whose nodes have other names are read with dnn_partitioning:names=ids.
/// - An op that is not listed goes where the first listed op of its colocation group goes.
///
/// Throws InputError with path:line:column and all mistakes at once if
/// - the text is no split,
/// - a node is not in the graph or is listed twice, or
/// - an op gets no device.
/// Throws InfeasibleError if more accelerators or cores have nodes than the cluster has.
Placement parse_split(const std::string& text, const std::string& path, const Problem& problem);

}  // namespace baechi
