/// Latency of one sample where an accelerator runs parts of the graph as a whole.
#pragma once
#include <optional>

#include "sim/problem/problem.h"

namespace baechi {

/// Which of its accelerator's parts each op belongs to; of ops on cores it says nothing. [num_ops]
using Parts = IdVector<OpId, std::uint32_t>;

/// The last end, or nothing if parts wait for each other.
///
/// A part starts when all it reads from elsewhere is done, takes these transfers, its ops and the
/// transfers of what is read elsewhere, one after another, and all its ops are done together. An op
/// on a core starts when all it reads is done; there are cores for all. Parts of one accelerator
/// run in the order of their numbers.
/// Source: Tarnawski et al., NeurIPS 2020, integer program for latency.
std::optional<Duration> latency_in_turn(const Problem& problem, const Placement& placement,
                                        const Parts& part);

}  // namespace baechi
