/// The placement format, `baechi-placement` 1: which device runs each op, and in which order.
///
/// {"format": "baechi-placement", "version": 1, "graph": "toy", "devices": 2,
///  "placement": {"a": 0, "b": 1}, "order": ["a", "b"]}
///
/// `graph`, `devices` and `order` may be absent; the keys that `baechi place --format json` adds
/// may be there; other keys must begin with x-.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "sim/problem/problem.h"

namespace baechi {

/// The largest placement file that is read: names of 10 million ops fit.
inline constexpr std::size_t most_placement_bytes = std::size_t{1} << 30U;

/// The placement in the file at `path` (.gz and .zst are decompressed), for `graph` on a cluster of
/// `num_devices`. `order` becomes priorities, ops it does not list come last; `detail` is kept.
/// Throws InputError with path:line:column, all mistakes at once: not such a file, an op that the
/// graph does not have, an op without a device, a device or a count of devices beyond the cluster.
/// Throws InfeasibleError if the file says that its placer found nothing (`status`).
Placement read_placement(const std::string& path, const OpGraph& graph, std::size_t num_devices);

/// The same from text already in memory; `path` is for messages.
Placement parse_placement(const std::string& text, const std::string& path, const OpGraph& graph,
                          std::size_t num_devices);

/// The file's `order`: ops by falling priority, equal ones by id; none if there are no priorities.
std::vector<OpId> placement_order(const Placement& placement, const OpGraph& graph);

/// The file's text.
std::string placement_json(const Placement& placement, const OpGraph& graph,
                           std::string_view graph_name, std::size_t num_devices);

/// Writes it: aside first, then renamed over `path`. Throws InputError if it cannot.
void write_placement(const std::string& path, const Placement& placement, const OpGraph& graph,
                     std::string_view graph_name, std::size_t num_devices);

}  // namespace baechi
