/// Joins calls and events by the order of their names on each thread.
#pragma once
#include <cstdint>
#include <string>

#include "traces/import/pytorch/join.h"

namespace baechi::pytorch {

/// Which calls the profiler exports, and so which names are looked for.
enum class Exported : std::uint8_t {
  all,
  /// All but each only child that has its parent's name, which the profiler without Kineto does not
  /// export. Such a call gets the event of its parent.
  but_only_children,
};

/// Joins each thread's calls with the thread of the recording, and the place on it, where the most
/// calls in a row match, from the first call on. Ties go to the place where the most of autograd's
/// sequence numbers agree, then to the last place, when the run is warm.
Join by_names(const ExecutionTrace& trace, const Kineto& kineto, Exported exported);

/// The same, where calls or events are missing here and there: takes the place with the fewest gaps
/// (align.h), of at most one per 25 calls. Calls that begin in the same microsecond as a gap's
/// neighbours may stand in another order.
Join by_names_with_gaps(const ExecutionTrace& trace, const Kineto& kineto, Exported exported);

}  // namespace baechi::pytorch
