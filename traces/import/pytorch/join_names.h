/// Joins calls and events by the order of names on each thread.
#pragma once
#include <cstdint>
#include <string>

#include "traces/import/pytorch/join.h"

namespace baechi::pytorch {

/// The calls that the profiler exports.
enum class ExportedCalls : std::uint8_t {
  all,
  /// Without only children that have their parent's name: the profiler without Kineto omits them.
  /// They get the event of their parent.
  without_only_children,
};

/// Joins the calls of each thread with the thread and position in the recording where the longest
/// prefix of the calls matches. Ties: most equal autograd sequence numbers, then the last position,
/// when the run is warm.
Join by_names(const ExecutionTrace& trace, const Kineto& kineto, ExportedCalls exported);

/// As by_names(), if some calls or events are missing: uses the alignment with the fewest gaps
/// (align.h), at most one per 25 calls. Calls that begin in the same microsecond as a neighbour of
/// a gap may be in any order.
Join by_names_with_gaps(const ExecutionTrace& trace, const Kineto& kineto, ExportedCalls exported);

}  // namespace baechi::pytorch
