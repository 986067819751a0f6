/// The ops and layers of a step under the roofs of their devices, as a web page draws them.
#pragma once
#include <span>
#include <string>

#include "sim/cluster/device_model.h"
#include "sim/report/timeline.h"

namespace baechi {

/// JSON on one line, "" if no op that ran states flops:
///   {"roofs": [{"device": kind, "bandwidth": bytes/s, "peaks": {number format: flop/s}}],
///    "ops": [[name, flops, traffic, ns, bound], ...], "layers": [[module, flops, traffic, ns]]}
/// Roofs: the kinds of devices that ran ops, with the number formats that the ops compute in.
/// Ops: the `most` that took longest, among those with flops and traffic; ties by id. Bound: 0
/// compute, 1 memory, 2 host (sim/cluster/bound.h), or -1 where the device's model is unknown.
/// Layers: all ops of one module together, all passes; the `most` that took longest. `models`
/// [num_devices]: null where unknown.
/// Source: Williams, Waterman, Patterson, "Roofline", CACM 2009.
std::string roofline(const Problem& problem, const Timeline& timeline,
                     std::span<const DeviceModel* const> models, std::size_t most = 100);

}  // namespace baechi
