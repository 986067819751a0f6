/// Graph exchange with other tools: writes Graphviz, reads and writes GraphML (NetworkX, yEd,
/// Gephi).
#pragma once
#include "sim/graph/op_graph.h"

namespace baechi {

/// Graphviz text. `device` ([num_ops] or empty) colours the nodes. Above 2,000 ops, the ops of one
/// layer and device are one node; above 2,000 layers, adjacent layers are merged, too.
std::string to_dot(const OpGraph& graph, const IdVector<OpId, DeviceId>& device = {});

/// GraphML: one edge per (tensor, reader). Nodes carry name, kind, phase, forward, colocation,
/// compute_us (on the first device type), persistent_bytes and temporary_bytes; edges carry output
/// (its index among the source's outputs), bytes and control. graphml_losses() says what is lost.
/// Control characters become Unicode control pictures.
std::string to_graphml(const OpGraph& graph);

/// What to_graphml() does not write of `graph`, one phrase each ("3 ops in lanes other than
/// 'compute'"): what a simulated step of the file would lack, and what only other uses would.
struct GraphmlLosses {
  std::vector<std::string> of_step{}, others{};
};
GraphmlLosses graphml_losses(const OpGraph& graph);

/// Reads GraphML with the attributes that to_graphml() writes into `builder`. All are optional: the
/// name defaults to the node's id, the output to 0. Edges of one output are one tensor, as large as
/// the largest of them. Returns the names of unused attributes, sorted. Throws InputError
/// ("path:line:column: ...") on bad XML, undirected or nested graphs, more than one graph, declared
/// entities, edges between unknown nodes and bad values.
std::vector<std::string> read_graphml(const std::string& text, const std::string& path,
                                      OpGraphBuilder& builder);

}  // namespace baechi
