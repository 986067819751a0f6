/// Bounds that take a linear program: no placement is better. Beside the quick ones of
/// sim/problem/bounds.h, and at least as good as the two they extend. Both times are 0,
/// which says nothing, where the graph has lanes or collectives.
#pragma once
#include <cstdint>
#include <optional>

#include "sim/problem/problem.h"

namespace baechi::bounds {

/// No step under Semantics::event is shorter, for any placement and transfer mode. The bound is the
/// longest chain of ops, in which all but one of the edges out of an op, and all but one of the
/// edges into an op, take time. On such an edge either the tensor crosses, or the reader waits for
/// the sibling before it on the device. Counted is the least of the transfer and of the times of
/// the siblings at either end. If no transfer takes longer than an op, this is m_sct's linear
/// program itself. Takes as long as m_sct.
/// Source: Hanen and Munier 1995 for the program; for transfers of any length, ours.
Duration communication_bound(const Problem& problem);

/// Bytes that must fit beside each other.
enum class Limits : std::uint8_t {
  none,
  all_devices,   ///< weights in the memory of every device, as in the engine
  accelerators,  ///< not so on cores: the model of Tarnawski et al.
};
/// The least work of the busiest device: all units' times shared out over the devices at will, also
/// in parts, so that the weights fit. Only times of ops count. It therefore bounds the step time as
/// well as the largest load.
Duration shared_bound(const Problem& problem, Limits limits);

/// The least number of devices, the largest first, that have memory for all weights; and no fewer
/// than there are units that need over half of the largest. Nothing: there are not enough.
std::optional<std::size_t> devices_needed(const Problem& problem);

}  // namespace baechi::bounds
