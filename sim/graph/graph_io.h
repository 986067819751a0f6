/// A graph as other tools read it.
#pragma once
#include <string>
#include <string_view>

#include "sim/graph/op_graph.h"

namespace baechi {

/// Graphviz: a box per op (backward ops grey), an arrow per edge with its bytes, control edges
/// dashed, colocation groups as colours of the frame.
std::string dot(const OpGraph& graph, std::string_view name);

/// GraphML, as NetworkX, yEd and Gephi read it. Of a node: name, kind, phase, compute_us,
/// persistent_bytes, temporary_bytes, group; of an edge: tensor, bytes, control.
std::string graphml(const OpGraph& graph);

}  // namespace baechi
