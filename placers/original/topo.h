/// The original's m_topo, called by place().
#pragma once
#include "placers/original/original.h"

namespace baechi::original {

PlacerResult topo(const Graph& graph, const IdVector<DeviceId, Bytes>& limits,
                  const PlacerOptions& options);

}  // namespace baechi::original
