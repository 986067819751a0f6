/// Segments of the forward pass, for activation checkpointing.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "sim/graph/op_graph.h"

namespace baechi {

inline constexpr std::uint32_t no_segment = ~std::uint32_t{0};

/// The segment of each forward op; no_segment for none, and for all other ops. [num_ops]
using Segments = IdVector<OpId, std::uint32_t>;

/// The name up to the first part with a digit, where '/' and '.' separate parts: "h.3" of
/// "h.3.attention.query", "net/block2" of "net/block2/conv". "" if there is none, or if it is the
/// last part.
std::string_view layer_of(std::string_view name);

/// A segment for each layer. Throws InputError if no op is in a layer but the graph has a backward
/// op.
Segments segments_by_layer(const OpGraph& graph);
/// The forward pass, in the order of ids, cut into `count` parts that write about equal bytes.
Segments segments_by_bytes(const OpGraph& graph, std::uint32_t count);
/// A segment for each pattern (sim/text.h); an op belongs to the first that matches its name.
/// Throws InputError if a pattern matches none.
Segments segments_by_names(const OpGraph& graph, const std::vector<std::string>& patterns);

}  // namespace baechi
