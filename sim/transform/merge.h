/// Makes a graph with fewer ops: each stands for one or more ops of the input.
#pragma once
#include "sim/transform/transform.h"

namespace baechi {

/// The properties that an op adds to the op that stands for it.
enum class Share : std::uint8_t {
  whole,    ///< time and memory, and its edges to other ops that share whole
  needs,    ///< time and memory
  memory,   ///< memory
  nothing,  ///< nothing
};

/// The fate of one op.
struct Part {
  /// The merged op that it goes into, which has this op's name, kind and place in the order. A
  /// leader leads itself and shares whole. no_op: the op is dropped from the graph.
  OpId leader = no_op;
  Share share = Share::whole;
};

/// The workspace of a merged op.
enum class Workspace : std::uint8_t {
  peak,     ///< the most memory that is live inside while its ops run one by one, in id order
  largest,  ///< the largest workspace of one of its ops; tensors inside are free, as in Baechi's
            ///< code
};

/// A merged op has
/// - the sums of times on every kind of device (no time if one of its ops has none), of persistent
///   bytes and of work;
/// - the earliest phase, the groups and the innermost common module of its ops that share whole;
/// - as outputs the tensors that other merged ops read. The others are part of its workspace; an op
///   that is merged with no other keeps them as outputs.
/// `parts`: [num_ops]. Throws InputError if the merged ops form a cycle.
Transformed merge(const OpGraph& graph, const IdVector<OpId, Part>& parts,
                  Workspace workspace = Workspace::peak);

}  // namespace baechi
