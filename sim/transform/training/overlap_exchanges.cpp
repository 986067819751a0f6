#include "sim/transform/graph_copy.h"
#include "sim/transform/training/data_parallel.h"

namespace baechi {
namespace {

/// Overlap of sequence-parallel collectives with GEMMs (tp_comm_overlap). A GEMM and the collective
/// before or after it are decomposed: only the first part of an all_gather precedes the GEMM, only
/// the last part of a reduce_scatter follows it. The other parts are an op NAME/beside, which
/// overlaps with the GEMM and ends before anything reads the GEMM's output.
///   all_gather NAME -> GEMM: NAME/beside starts with NAME; the GEMM's readers wait for it.
///   GEMM -> reduce_scatter NAME: NAME/beside starts with the GEMM; NAME waits for it.
/// Not decomposed: collectives without a GEMM on that side, or whose GEMM's output is read by
/// updates only, and collectives of context parallelism. Decomposition does not change a GEMM's
/// time.
///
/// With `experts`, an all_to_all of expert parallelism overlaps with the computation of other
/// micro-batches: NAME/beside starts with the producers of NAME, and only the next op of its lane
/// waits for it. A pass then takes the longer of its kernels and its collectives; that the first
/// and last micro-batch have nothing to overlap with is neglected. Source: Wang et al., "Overlap
/// Communication with Dependent Computation via Decomposition in Large Deep Learning Models",
/// ASPLOS 2023; NVIDIA Transformer Engine, userbuffers; Megatron-LM,
/// overlap_moe_expert_parallel_comm.
class OverlapExchanges final : public Transform {
 public:
  explicit OverlapExchanges(Options& o)
      : parts_(o.get("parts", std::int64_t{0},
                     "number of parts, of which one stays exposed; 0: as many as ranks", 0)),
        tokens_(o.get("tokens", true, "overlap sequence-parallel collectives")),
        experts_(o.get("experts", false,
                       "overlap all_to_all of expert parallelism with other micro-batches")) {}

  Transformed apply(const OpGraph& graph) const override {
    GraphCopy copy(graph);
    copy.add_all();
    std::set<OpId> hidden;
    for (const Collective& c : graph.collectives()) {
      if (const std::optional<Overlap> overlap = overlap_of(graph, c)) {
        hidden.insert(c.first);
        add(copy, graph, c, *overlap);
      }
    }
    copy.change_collectives(
        [&](const Collective& c) { return hidden.contains(c.first) ? exposed(c) : c.bytes; });
    return std::move(copy).built();
  }

 private:
  /// The dependencies of the overlapped parts: predecessors and successors.
  struct Overlap {
    std::set<OpId> after, before;
  };

  Bytes exposed(const Collective& c) const {
    if (c.kind == CollectiveKind::all_to_all) return {};
    const std::int64_t parts = parts_ > 0 ? parts_ : c.ranks;
    return {(c.bytes.count + parts - 1) / parts};
  }

  /// GEMMs of experts are not decomposed. Source: Megatron-LM, extensions/transformer_engine.py,
  /// explicit_expert_comm.
  static bool is_gemm(const OpGraph& graph, OpId v) {
    if (is_expert(graph, v)) return false;
    return std::ranges::any_of(
        graph.kernels(v), [](const OpWork& work) { return work.matrix.kind != MatrixKind::none; });
  }

  static std::set<OpId> writers_of(const OpGraph& graph, OpId v) {
    std::set<OpId> writers;
    for (const EdgeId e : graph.in_edges(v)) writers.insert(graph.edge(e).src);
    return writers;
  }
  static std::set<OpId> readers_of(const OpGraph& graph, OpId v) {
    std::set<OpId> readers;
    for (const EdgeId e : graph.out_edges(v)) readers.insert(graph.edge(e).dst);
    return readers;
  }

  std::optional<Overlap> overlap_of(const OpGraph& graph, const Collective& c) const {
    if (experts_ && c.kind == CollectiveKind::all_to_all && c.member_ids().size() == 1)
      return Overlap{.after = writers_of(graph, c.first), .before = {}};
    const bool gathers = c.kind == CollectiveKind::all_gather;
    if (!tokens_ || (!gathers && c.kind != CollectiveKind::reduce_scatter) || c.sharing != 1 ||
        c.member_ids().size() != 1 || exposed(c) == c.bytes)
      return std::nullopt;
    return gathers ? overlap_with_readers(graph, c.first) : overlap_with_writer(graph, c.first);
  }

  /// For the all_gather `v`. Readers that are no GEMMs wait for all parts.
  static std::optional<Overlap> overlap_with_readers(const OpGraph& graph, OpId v) {
    Overlap found{.after = writers_of(graph, v), .before = {}};
    bool multiplied = false;
    for (const OpId reader : readers_of(graph, v)) {
      std::set<OpId> behind = readers_of(graph, reader);
      std::erase_if(behind, [&](OpId w) { return graph.op(w).phase == Phase::update; });
      if (is_gemm(graph, reader) && !behind.empty()) {
        multiplied = true;
        found.before.insert(behind.begin(), behind.end());
      } else {
        found.before.insert(reader);
      }
    }
    if (!multiplied) return std::nullopt;
    return found;
  }

  static std::optional<Overlap> overlap_with_writer(const OpGraph& graph, OpId v) {
    const std::set<OpId> writers = writers_of(graph, v);
    if (writers.size() != 1 || !is_gemm(graph, *writers.begin())) return std::nullopt;
    return Overlap{.after = writers_of(graph, *writers.begin()), .before = {v}};
  }

  void add(GraphCopy& copy, const OpGraph& graph, const Collective& c,
           const Overlap& overlap) const {
    const OpId v = c.first;
    const OpId made = copy.builder().add_op({.name = fmt::format("{}/beside", graph.name(v)),
                                             .kind = graph.kind(v),
                                             .phase = graph.op(v).phase,
                                             .module = graph.module(v)});
    if (const OpId forward = graph.op(v).forward; forward != no_op)
      copy.builder().set_forward(made, copy.copy_of(forward));
    copy.join(made, v);
    for (const OpId w : overlap.after) copy.builder().add_control(copy.copy_of(w), made);
    for (const OpId w : overlap.before) copy.builder().add_control(made, copy.copy_of(w));
    Collective rest = c;
    rest.bytes = c.bytes - exposed(c);
    copy.builder().add_collective(rest, {{made}});
  }

  std::int64_t parts_;
  bool tokens_, experts_;
};

}  // namespace

std::unique_ptr<Transform> make_overlap_exchanges(Options& o) {
  return std::make_unique<OverlapExchanges>(o);
}

}  // namespace baechi
