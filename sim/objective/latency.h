/// Latency of one sample if accelerators run parts of the graph as wholes.
#pragma once
#include <optional>

#include "sim/problem/problem.h"

namespace baechi {

/// The part of its accelerator that each op belongs to; meaningless for ops on cores. [num_ops]
using Parts = IdVector<OpId, std::uint32_t>;

/// The end of the last part, or nothing if parts wait for each other.
///
/// A part starts when all its inputs from elsewhere are done. It then takes, one after another,
/// these transfers, its ops, and the transfers of its outputs to elsewhere. All its ops are done
/// together. An op on a core starts when all its inputs are done; there are cores for all ops.
/// Parts of one accelerator run in the order of their numbers.
/// Source: Tarnawski et al., NeurIPS 2020, integer program for latency.
std::optional<Duration> latency_in_turn(const Problem& problem, const Placement& placement,
                                        const Parts& part);

}  // namespace baechi
