/// Splits as the programs of Tarnawski et al. write them, and as their human experts did.
#pragma once
#include <string>

#include "sim/problem/problem.h"

namespace baechi {

/// {"fpgas": [{"nodes": [1, 2]}, ...], "cpus": [{"nodes": [...]}]}: the i-th of "fpgas" is the i-th
/// accelerator, all of "cpus" the cores, in turn; node 7 is the op called `node7` or `n7`, or, of a
/// training graph with 4 ops of such names, `node3grad`: the authors count backward nodes on. An op
/// that is not listed goes where the first listed op of its group goes.
bool is_split(const std::string& text);

/// Throws InputError with path:line:column, all mistakes at once: not such a file, a node that the
/// graph does not have or that is listed twice, an op that is placed nowhere.
/// Throws InfeasibleError if it has more accelerators or cores with nodes than the cluster.
Placement parse_split(const std::string& text, const std::string& path, const Problem& problem);

/// The split or the placement (placement_file.h) in the file at `path`. Throws as their readers do.
Placement read_placement_or_split(const std::string& path, const Problem& problem);

}  // namespace baechi
