/// What an answer rests on: the numbers of kinds of devices, links and collectives, and of formats.
#pragma once
#include <vector>

#include "scenarios/run/prepared_graph.h"

namespace baechi {

/// The evidence of a step with times of kinds that were not measured in the trace; empty if nothing
/// rests on a kind. A number format that a kind has no measured kernels of is named by itself.
std::vector<Evidence> evidence_of(const PreparedGraph& graph, const ClusterChoice& cluster);

/// Of `graph`, timed as a device of that kind.
std::vector<Evidence> evidence_of(const OpGraph& graph, const DeviceModel& device);

/// "evidence     h100: ...; link nvlink4: unfitted"; "" without any.
std::string evidence_line(const std::vector<Evidence>& evidence);

}  // namespace baechi
