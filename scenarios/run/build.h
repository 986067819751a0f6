/// From the values of a scenario to the inputs of a placer and the engine.
#pragma once
#include <memory>

#include "scenarios/read/scenario.h"
#include "traces/trace.h"

namespace baechi {

/// Generates or reads the graph; without a name of its own it has the file's or the generator's.
/// Throws InputError.
Trace load_graph(const GraphChoice& choice);
Trace load_generated(const Choice& choice);

/// A hash of all that a placer or the engine sees of the graph.
std::uint64_t fingerprint(const OpGraph& graph);

/// Devices in the order listed, memory scaled by the fraction.
/// Throws InputError if there is no device or more than `most_devices`, if a fraction, a speed or a
/// link makes no sense, if a link names a group that is not there, or a calibration is of fewer
/// partitions.
Cluster make_cluster(const ClusterChoice& choice);

/// OriginalCosts if the choice has a fit, else ProfiledCosts; with a calibration, CalibratedCosts
/// over them. Throws InputError if the graph has no times for a device kind, or the calibration
/// nothing of its mode or way; with `check` also as check_limits() does.
std::unique_ptr<CostModel> make_costs(const ClusterChoice& choice, const OpGraph& graph,
                                      const Cluster& cluster, bool check = true);

}  // namespace baechi
