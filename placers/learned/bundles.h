/// Units merged to fewer bundles.
#pragma once
#include <cstdint>

#include "placers/interface/colocation.h"

namespace baechi::learned {

/// [num_ops] The bundle of each op: the units, merged until there are at most `most` bundles or
/// nothing can be merged any more. In rounds, bundles joined by the longest transfers are paired,
/// each bundle at most once a round, as long as a pair's time stays below twice an even share of
/// `most` bundles (more from round to round) and its weights below a quarter of the smallest
/// device's memory, and where both can run on the same devices. Bundles are numbered by their first
/// ops. Source: heavy-edge matching (Karypis and Kumar, SIAM J. Sci. Comput. 1998).
IdVector<OpId, std::uint32_t> bundles_of(const Problem& problem, const ColocationUnits& units,
                                         std::size_t most);

}  // namespace baechi::learned
