/// The original's m_topo: baechi_place() calls it.
#pragma once
#include "placers/original/original.h"

namespace baechi {

CompatResult compat_topo(const BaechiGraph& graph, const IdVector<DeviceId, Bytes>& limits,
                         const CompatOptions& options);

}  // namespace baechi
