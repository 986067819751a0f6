/// The data of a step's roofline plot on a web page.
#pragma once
#include <span>
#include <string>

#include "sim/cluster/device_model.h"
#include "sim/report/timeline.h"

namespace baechi {

/// JSON on one line, "" if no op that ran states flops:
///   {"roofs": [{"device": type, "bandwidth": bytes/s, "peaks": {dtype: flop/s}}],
///    "ops": [[name, flops, traffic, ns, bound], ...], "layers": [[module, flops, traffic, ns]]}
/// Roofs: the device types that ran ops, with the dtypes of the ops.
/// Ops: the `most` longest ones among those with flops and traffic; ties by id. Bound: 0
/// compute, 1 memory, 2 host (sim/cluster/bound.h), or -1 where the device's model is unknown.
/// Layers: sums over the ops of one module, of all phases; the `most` longest ones. `models`
/// [num_devices]: null where unknown.
/// Source: Williams, Waterman, Patterson, "Roofline", CACM 2009.
std::string roofline(const Problem& problem, const Timeline& timeline,
                     std::span<const DeviceModel* const> models, std::size_t most = 100);

}  // namespace baechi
