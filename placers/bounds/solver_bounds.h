/// Bounds that take a linear program: no placement is better. Beside the quick ones of
/// sim/problem/bounds.h, and at least as good as the two they extend. Both times are 0,
/// which says nothing, where the graph has lanes or collectives.
#pragma once
#include <cstdint>
#include <optional>

#include "sim/problem/problem.h"

namespace baechi::bounds {

/// No step under Semantics::event is shorter, whatever the placement and the transfer mode: the
/// longest chain of ops, where of all edges out of an op all but one, and of all into an op all but
/// one, take time. Either the tensor crosses, or the reader waits for the sibling that is on the
/// device before it: the least of the transfer and of the times of the siblings at either end is
/// counted. Where no transfer takes longer than an op, that is m_sct's linear program itself.
/// Takes as long as m_sct.
/// Source: Hanen and Munier 1995 for the program; for transfers of any length, ours.
Duration communication_bound(const Problem& problem);

/// What must fit beside each other.
enum class Limits : std::uint8_t {
  none,
  all_devices,   ///< weights in the memory of every device: what the engine demands
  accelerators,  ///< not so on cores: the model of Tarnawski et al.
};
/// No device has less to do at best than this: all units' times shared out over the devices at
/// will, also in parts, so that the weights fit. Nothing but times of ops is counted, so it bounds
/// the step time as well as the largest load.
Duration shared_bound(const Problem& problem, Limits limits);

/// The least number of devices, the largest first, that have memory for all weights; and no fewer
/// than there are units that need over half of the largest. Nothing: there are not enough.
std::optional<std::size_t> devices_needed(const Problem& problem);

}  // namespace baechi::bounds
