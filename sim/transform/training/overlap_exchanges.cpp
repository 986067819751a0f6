#include <algorithm>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "sim/error.h"
#include "sim/transform/graph_copy.h"
#include "sim/transform/training/data_parallel.h"

namespace baechi {
namespace {

/// Ranks of tensor parallelism exchange tokens while they multiply them. A product and the exchange
/// before or behind it are done in parts: only the first part of an all_gather comes before the
/// product, only the last part of a reduce_scatter comes behind it. The other parts are an op
/// NAME/beside, which runs beside the product and has ended before anything reads it.
///   all_gather NAME -> product: NAME/beside begins with NAME; the product's readers wait for it.
///   product -> reduce_scatter NAME: NAME/beside begins with the product; NAME waits for it.
/// Exchanges stay whole that have no product on that side, or one of which updates alone read what
/// it makes, or are of ranks that share the tokens of a sample. The parts of a product take as long
/// as the whole.
///
/// With `experts`, an all_to_all of ranks that share experts runs beside what other micro-batches
/// compute: NAME/beside begins with what NAME reads, and nothing waits for it but the next on its
/// lane. A pass then takes as long as its kernels or its exchanges, whichever is longer; that the
/// first and last micro-batch have no other is left out. Source: Wang et al., "Overlap
/// Communication with Dependent Computation via Decomposition in Large Deep Learning Models",
/// ASPLOS 2023; NVIDIA Transformer Engine, userbuffers; Megatron-LM,
/// overlap_moe_expert_parallel_comm.
class OverlapExchanges final : public Transform {
 public:
  explicit OverlapExchanges(Options& o)
      : parts_(o.get("parts", std::int64_t{0},
                     "of which one is not beside its product; 0: as many as ranks", 0)),
        tokens_(o.get("tokens", true, "exchanges of ranks of tensor parallelism")),
        experts_(o.get("experts", false,
                       "all_to_all of ranks that share experts, beside other micro-batches")) {}

  Transformed apply(const OpGraph& graph) const override {
    GraphCopy copy(graph);
    copy.add_all();
    std::set<OpId> hidden;
    for (const Collective& c : graph.collectives()) {
      if (const std::optional<Beside> beside = beside_of(graph, c)) {
        hidden.insert(c.first);
        add(copy, graph, c, *beside);
      }
    }
    copy.change_collectives(
        [&](const Collective& c) { return hidden.contains(c.first) ? exposed(c) : c.bytes; });
    return std::move(copy).built();
  }

 private:
  /// What the parts beside a product wait for, and what waits for them.
  struct Beside {
    std::set<OpId> after, before;
  };

  Bytes exposed(const Collective& c) const {
    if (c.kind == CollectiveKind::all_to_all) return {};
    const std::int64_t parts = parts_ > 0 ? parts_ : c.ranks;
    return {(c.bytes.count + parts - 1) / parts};
  }

  /// Experts' products are not in parts. Source: Megatron-LM, extensions/transformer_engine.py,
  /// explicit_expert_comm.
  static bool is_product(const OpGraph& graph, OpId v) {
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

  std::optional<Beside> beside_of(const OpGraph& graph, const Collective& c) const {
    if (experts_ && c.kind == CollectiveKind::all_to_all && c.member_ids().size() == 1)
      return Beside{.after = writers_of(graph, c.first), .before = {}};
    const bool gathers = c.kind == CollectiveKind::all_gather;
    if (!tokens_ || (!gathers && c.kind != CollectiveKind::reduce_scatter) || c.sharing != 1 ||
        c.member_ids().size() != 1 || exposed(c) == c.bytes)
      return std::nullopt;
    return gathers ? beside_readers(graph, c.first) : beside_writer(graph, c.first);
  }

  /// The all_gather `v`: readers without a product wait for all parts themselves.
  static std::optional<Beside> beside_readers(const OpGraph& graph, OpId v) {
    Beside found{.after = writers_of(graph, v), .before = {}};
    bool multiplied = false;
    for (const OpId reader : readers_of(graph, v)) {
      std::set<OpId> behind = readers_of(graph, reader);
      std::erase_if(behind, [&](OpId w) { return graph.op(w).phase == Phase::update; });
      if (is_product(graph, reader) && !behind.empty()) {
        multiplied = true;
        found.before.insert(behind.begin(), behind.end());
      } else {
        found.before.insert(reader);
      }
    }
    if (!multiplied) return std::nullopt;
    return found;
  }

  static std::optional<Beside> beside_writer(const OpGraph& graph, OpId v) {
    const std::set<OpId> writers = writers_of(graph, v);
    if (writers.size() != 1 || !is_product(graph, *writers.begin())) return std::nullopt;
    return Beside{.after = writers_of(graph, *writers.begin()), .before = {v}};
  }

  void add(GraphCopy& copy, const OpGraph& graph, const Collective& c, const Beside& beside) const {
    const OpId v = c.first;
    const OpId made = copy.builder().add_op({.name = fmt::format("{}/beside", graph.name(v)),
                                             .kind = graph.kind(v),
                                             .phase = graph.op(v).phase,
                                             .module = graph.module(v)});
    if (const OpId forward = graph.op(v).forward; forward != no_op)
      copy.builder().set_forward(made, copy.copy_of(forward));
    copy.join(made, v);
    for (const OpId w : beside.after) copy.builder().add_control(copy.copy_of(w), made);
    for (const OpId w : beside.before) copy.builder().add_control(made, copy.copy_of(w));
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
