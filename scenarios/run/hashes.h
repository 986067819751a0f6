/// Hashes of what determines results. They are kept in files of results: equal in every process.
#pragma once
#include "scenarios/read/scenario.h"

namespace baechi {

/// The hash of everything in the graph that is visible to placers and the engine.
std::uint64_t fingerprint(const OpGraph& graph);

/// The hash of the devices and their calibration: everything in a cluster that affects a lower
/// bound.
std::uint64_t hash_of_devices(const ClusterChoice& cluster);

/// The hash of the cluster without memory: everything that affects the times of ops, transfers and
/// collectives.
std::uint64_t hash_of_times(const ClusterChoice& cluster);

/// Runs with equal hashes differ only in placer, seed and measure. `graph` is a hash of the graph's
/// content and the transforms.
std::uint64_t hash_of_point(std::uint64_t graph, const ClusterChoice& cluster,
                            const EngineOptions& engine, const ProfileChoice& profile);

}  // namespace baechi
