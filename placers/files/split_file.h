/// Reads splits: the placements that the programs and human experts of Tarnawski et al. wrote.
#pragma once
#include <string>

#include "sim/problem/problem.h"

namespace baechi {

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

/// The split or placement (placement_file.h) in the file at `path`. Throws as parse_split() and
/// parse_placement() do.
Placement read_placement_or_split(const std::string& path, const Problem& problem);

}  // namespace baechi
