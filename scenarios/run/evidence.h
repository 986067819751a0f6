/// The fits behind an answer: of device types, links, collectives and dtypes.
#pragma once
#include <vector>

#include "scenarios/run/prepared_graph.h"

namespace baechi {

/// The evidence of a step with modelled times; empty if all times are from the trace. A dtype
/// without measured kernels on a device type is listed separately.
std::vector<Evidence> evidence_of(const PreparedGraph& graph, const ClusterChoice& cluster);

/// The evidence of `graph`, timed on a device of that type.
std::vector<Evidence> evidence_of(const OpGraph& graph, const DeviceModel& device);

/// "evidence     h100: ...; link nvlink4: unfitted"; "" without any.
std::string evidence_line(const std::vector<Evidence>& evidence);

}  // namespace baechi
