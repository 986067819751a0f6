/// Converts the values of a scenario to the inputs of placers and the engine.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "scenarios/read/scenario.h"
#include "traces/trace.h"

namespace baechi {

/// Generates or reads the graph; without its own name it gets that of the file or the generator.
/// Throws InputError.
Trace load_graph(const GraphChoice& choice);
Trace load_generated(const Choice& choice);

/// The graph of "llama:config=8b": a generator, where a file is expected. Nothing if `text` is a
/// file, or not even looks like the name of a generator: it has a '/' or a '.' before any ':'.
/// Throws InputError if the name is no generator's.
std::optional<Trace> load_generator_words(const std::string& text);

/// A hash of everything in the graph that is visible to placers and the engine.
std::uint64_t fingerprint(const OpGraph& graph);

/// Devices in the order listed, memory scaled by the fraction. Throws InputError if there is no
/// device or more than `most_devices`, if a fraction, a speed or a link is out of range, if a link
/// names an unknown group, or if a calibration has too few partitions.
Cluster make_cluster(const ClusterChoice& choice);

/// OriginalCosts if the choice has a fit, else ProfiledCosts; with a calibration, CalibratedCosts
/// over them. Throws InputError if the graph has no times for a device type, or the calibration
/// none for its mode; with `check` also as check_limits() does.
std::unique_ptr<CostModel> make_costs(const ClusterChoice& choice, const OpGraph& graph,
                                      const Cluster& cluster, bool check = true);

}  // namespace baechi
