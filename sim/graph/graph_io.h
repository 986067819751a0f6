/// Graphs for other tools: Graphviz to look at, GraphML both ways (NetworkX, yEd, Gephi).
#pragma once
#include <string>
#include <vector>

#include "sim/graph/op_graph.h"

namespace baechi {

/// Graphviz text; ops are filled with the colour of their device if `device` is given ([num_ops] or
/// empty). Of more than 2 000 ops, those of one layer and device are one node, of neighbouring
/// layers too where there are more layers than that.
std::string to_dot(const OpGraph& graph, const IdVector<OpId, DeviceId>& device = {});

/// GraphML: one edge per (tensor, reader). Nodes carry name, kind, phase, forward, colocation,
/// compute_us (on the first device kind), persistent_bytes and temporary_bytes; edges carry output
/// (which of its source's), bytes and control. Outputs nobody reads, measured transfer times and
/// which tensors are references are left out.
std::string to_graphml(const OpGraph& graph);

/// Adds the graph in `text`, GraphML with attributes as to_graphml() writes them, all optional: the
/// name defaults to the node's id, the output to 0. Edges from one output are one tensor, of the
/// largest of their sizes. Returns the names of the attributes it did not use, sorted.
/// Throws InputError, beginning with `path`, on what is not directed GraphML, an edge between
/// unknown nodes, or a bad value.
std::vector<std::string> read_graphml(const std::string& text, const std::string& path,
                                      OpGraphBuilder& builder);

}  // namespace baechi
