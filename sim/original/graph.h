/// The graph representation of the original Baechi: one edge per pair of ops, with a list of
/// tensors. Source: Baechi's code (beomyeol/baechi). Section and quirk numbers (Q1..Q25) here and
/// in placers/original are defined in placers/original/README.md.
#pragma once
#include "sim/cluster/cost_model.h"

namespace baechi::original {

/// Throws InputError unless all devices and all links of `cluster` are the same.
void require_uniform(const Cluster& cluster);

class Graph {
 public:
  struct Op {
    Duration compute{};  ///< > 0 (Q11: the original misses the end of an op of no length)
    Bytes temporary{};
    Bytes persistent{};        ///< included in `outputs`, as in TensorFlow
    Bytes outputs{};           ///< sum over the output ports
    GroupId group = no_group;  ///< never no_group in a Graph: single ops are groups
    std::uint32_t topo = 0;    ///< unique; breaks every tie
  };
  /// One tensor on an edge. Two sends of one TensorId to one device are one transfer.
  struct Send {
    TensorId tensor{};
    /// Index of the tensor among the tensors of its op. A tensor that several ops send has a unique
    /// larger number. A table of num_slots() entries therefore suffices while one op sends.
    std::uint32_t slot = 0;
    Bytes size{};
    Duration time{};  ///< between any two devices: the original's links are all equal
  };
  struct Edge {
    OpId src{};
    OpId dst{};
  };
  /// `dst` reads a tensor of `src`; input of the constructor.
  struct Read {
    OpId src{};
    OpId dst{};
    Send send{};
  };

  /// Edges are sorted by src, then by first occurrence in `reads`. Further tensors between two ops
  /// join their edge, each once. Op::topo is kept if `numbered` (unique, not far above num_ops);
  /// else set by Kahn's algorithm with a first-in first-out queue, sources in id order, then
  /// out-edges in order; ops on a cycle keep 0.
  Graph(IdVector<OpId, Op> ops, std::span<const Read> reads, bool numbered = false);

  /// Converts a graph on a cluster. Ids are kept, out-edges are in the order in which they were
  /// added. Persistent bytes are added to the outputs, and times of 0 become 1 us, both as in the
  /// original's import. A control dependency parallel to a data edge joins it (Q21: the original
  /// stops). With one device, transfers take no time. Throws InputError if two links, or the types
  /// or speeds of two devices, differ.
  static Graph from(const OpGraph& graph, const CostModel& costs, const Cluster& cluster);

  std::size_t num_ops() const { return ops_.size(); }
  std::size_t num_edges() const { return edges_.size(); }
  std::size_t num_tensors() const { return num_tensors_; }  ///< one more than the largest TensorId
  std::size_t num_groups() const { return num_groups_; }    ///< groups are 1 .. num_groups
  std::size_t num_slots() const { return num_slots_; }      ///< one more than the largest slot

  auto ops() const { return ops_.ids(); }
  auto edges() const { return edges_.ids(); }
  const Op& op(OpId v) const { return ops_[v]; }
  const Edge& edge(EdgeId e) const { return edges_[e]; }
  std::span<const Send> sends(EdgeId e) const {  ///< never empty
    return {sends_.data() + sends_begin_[index(e)], sends_.data() + sends_begin_[index(e) + 1]};
  }
  auto out_edges(OpId v) const {
    return id_range<EdgeId>(out_begin_[index(v)], out_begin_[index(v) + 1]);
  }
  std::span<const EdgeId> in_edges(OpId v) const {  ///< sorted by src
    return {in_.data() + in_begin_[index(v)], in_.data() + in_begin_[index(v) + 1]};
  }
  /// The src of each of in_edges(v), in the same order.
  std::span<const OpId> predecessors(OpId v) const {
    return {in_src_.data() + in_begin_[index(v)], in_src_.data() + in_begin_[index(v) + 1]};
  }
  /// Prefetches the memory that is read when `v` runs.
  void prefetch(OpId v) const {
    __builtin_prefetch(&ops_[v]);
    __builtin_prefetch(edges_.data() + out_begin_[index(v)]);
  }
  /// Transfer time of all tensors of `e`, one after another.
  Duration time(EdgeId e) const {
    Duration sum{};
    for (const Send& s : sends(e)) sum += s.time;
    return sum;
  }

 private:
  Graph() = default;
  void reserve(std::size_t reads);
  void add_edges_of(std::span<const Read> reads, std::vector<EdgeId>& edge_to);
  void finish(bool numbered);
  void number_slots();
  void index_readers();
  void number_topologically();
  void complete_groups();

  IdVector<OpId, Op> ops_;
  IdVector<EdgeId, Edge> edges_;
  std::vector<Send> sends_;                    // sorted by edge
  std::vector<std::uint32_t> sends_begin_{0};  // [num_edges + 1], into sends_
  std::vector<std::uint32_t> out_begin_{0};    // [num_ops + 1], into edges_
  std::vector<EdgeId> in_;                     // [num_edges], sorted by (dst, id)
  std::vector<OpId> in_src_;                   // [num_edges], the src of each of in_
  std::vector<std::uint32_t> in_begin_;        // [num_ops + 1], into in_
  std::size_t num_tensors_ = 0;
  std::size_t num_groups_ = 0;
  std::size_t num_slots_ = 0;
};

}  // namespace baechi::original
