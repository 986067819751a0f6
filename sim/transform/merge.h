/// Makes a graph with fewer ops, each standing for some of the ops of another.
#pragma once
#include "sim/transform/transform.h"

namespace baechi {

/// What an op brings into the op that stands for it.
enum class Share : std::uint8_t {
  whole,    ///< its time and memory, and the edges it has to other ops that share whole
  needs,    ///< its time and memory
  memory,   ///< its memory alone
  nothing,  ///< it goes along unseen
};

struct Part {
  OpId leader = no_op;  ///< whose name, kind and place in the order the merged op takes: an op that
                        ///< leads itself and shares whole; no_op: `this` is gone from the graph
  Share share = Share::whole;
};

/// What a merged op takes while it runs.
enum class Workspace : std::uint8_t {
  peak,     ///< the most that is live inside as its ops run one after another, in id order
  largest,  ///< that of its op with most; what passes between its ops is free. As Baechi's code
};

/// The merged op has the sums of times on every kind of device (none where one of its ops has
/// none), of persistent bytes and of work; the earliest phase; the groups of its ops that share
/// whole; and as outputs the tensors that other ops read. Tensors nobody else reads are part of the
/// workspace, but of an op that merges with no other they stay outputs.
/// `parts`: [num_ops]. Throws InputError if the merged ops form a cycle.
Transformed merge(const OpGraph& graph, const IdVector<OpId, Part>& parts,
                  Workspace workspace = Workspace::peak);

}  // namespace baechi
