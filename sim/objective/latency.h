/// Latency of one sample if accelerators run parts of the graph atomically.
#pragma once
#include <optional>

#include "sim/problem/problem.h"

namespace baechi {

/// The part of its accelerator to which each op belongs; unused for ops on cores. [num_ops]
using Parts = IdVector<OpId, std::uint32_t>;

/// The end of the last part, or nothing if parts wait for each other in a cycle.
///
/// A part starts when all its external inputs are done. It then runs their transfers, its ops, and
/// the transfers of its outputs to other devices in sequence; its ops are done at its end. An op on
/// a core starts when all its inputs are done; there are cores for all ops. Parts of one
/// accelerator run in the order of their numbers. Source: Tarnawski et al., NeurIPS 2020, integer
/// program for latency.
std::optional<Duration> latency_in_turn(const Problem& problem, const Placement& placement,
                                        const Parts& part);

}  // namespace baechi
