/// Merges ops of a graph.
#pragma once
#include "sim/transform/transform.h"

namespace baechi {

/// What an op contributes to its merged op.
enum class Share : std::uint8_t {
  whole,    ///< time, memory, and its edges to other ops with Share::whole
  needs,    ///< time and memory
  memory,   ///< memory
  nothing,  ///< nothing
};

/// The fate of one op.
struct Part {
  /// Identifies the merged op, which has the leader's name, kind and position in the order. A
  /// leader is its own leader with Share::whole. no_op: the op is dropped.
  OpId leader = no_op;
  Share share = Share::whole;
};

/// The workspace of a merged op.
enum class Workspace : std::uint8_t {
  peak,     ///< peak of workspace and internal tensors while its ops run in id order
  largest,  ///< the largest workspace of its ops; internal tensors are free, as in Baechi's code
};

/// A merged op has
/// - the sums of times on every device type (no time if one of its ops has none), of persistent
///   bytes and of work;
/// - the earliest phase, the groups and the innermost common module of its Share::whole ops;
/// - as outputs the tensors that other merged ops read. The others are internal and part of its
///   workspace, unless the op is merged with no other.
/// `parts`: [num_ops]. Throws InputError if the merged ops form a cycle.
Transformed merge(const OpGraph& graph, const IdVector<OpId, Part>& parts,
                  Workspace workspace = Workspace::peak);

}  // namespace baechi
