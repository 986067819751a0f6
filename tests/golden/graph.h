/// Graphs of the goldens, with names, which original::Graph does not have.
#pragma once

#include "sim/original/graph.h"
#include "tests/golden/record.h"

namespace baechi::golden {

struct GoldenOp {
  std::string name;
  std::int64_t compute_us = 0;
  std::int64_t temporary = 0;
  std::int64_t persistent = 0;
  std::vector<std::int64_t> outputs;  ///< per port
  std::vector<std::string> labels;    ///< colocation, before grouping
};

struct GoldenRead {
  std::size_t src = 0;
  std::size_t dst = 0;
  std::string tensor;
  std::int64_t bytes = 0;
  std::int64_t us = 0;
};

/// A file of graphs/: ops and edge records in file order.
struct GoldenGraph {
  std::size_t devices = 0;
  std::vector<GoldenOp> ops;
  std::vector<GoldenRead> reads;
};
/// Throws InputError on a missing field or an edge to nowhere.
GoldenGraph read_graph(const json& file);

struct NamedGraph {
  original::Graph graph;
  std::vector<std::string> tensors;  ///< [num_tensors]
  /// [num_groups + 1], from 1. "" is Python's None, the one group of all ops without a label.
  std::vector<std::string> group_names;
};
/// `group_of`: the name of each op's group.
/// Throws InputError on a cycle or a negative time.
NamedGraph named_graph(const GoldenGraph& graph, const std::vector<std::string>& group_of);

/// A fused graph as recorded, and which original ops went into each of its ops.
struct FusedGraph {
  NamedGraph named;
  std::vector<std::vector<std::size_t>> ops;
};
FusedGraph read_fused(const json& record);

/// The original's `tf` grouper on lists of groups: the closure, named by the least name by (length,
/// text). "" for empty lists.
std::vector<std::string> tf_groups(const std::vector<std::vector<std::string>>& labels);
std::vector<std::string> tf_groups(const GoldenGraph& graph);

inline json us(Duration t) {
  return t.count() % 1000 == 0 ? json(t.count() / 1000)
                               : json(static_cast<double>(t.count()) / 1e3);
}
inline json us(TimePoint t) { return us(t.time_since_epoch()); }

template <class Id>
json bytes(const IdVector<Id, Bytes>& values) {
  json list = json::array();
  for (const Bytes b : values) list.push_back(b.count);
  return list;
}
/// Ids as numbers, `none` as -1.
template <class Key, class Id>
json ids(const IdVector<Key, Id>& values, Id none) {
  json list = json::array();
  for (const Id id : values) list.push_back(id == none ? -1 : static_cast<std::int64_t>(index(id)));
  return list;
}

}  // namespace baechi::golden
