#include "sim/transform/what_if/where.h"

namespace baechi::what_if {

enum class EdgePairs : std::uint8_t { all, layer };
constexpr auto names_of(EdgePairs) {
  return std::to_array<Named<EdgePairs>>(
      {{EdgePairs::all, "all", "with every op of `to`"},
       {EdgePairs::layer, "layer", "with ops of the same module"}});
}

namespace {

/// Removes the edges from the selected ops to ops of `to` (to every op, if not given).
class DropEdges final : public Verb {
 public:
  explicit DropEdges(Options& o) : to_(read_to(o)) {}

  bool needs_times() const override { return to_ && to_->needs_times(); }

  Change apply(const Scope& scope, const Selection& selected) const override {
    const OpGraph& graph = scope.graph();
    const Selection readers = to_ ? to_->select(scope) : Selection(graph.num_ops(), true);
    Copying copying(graph);
    copying.ops();
    copying.edges([&](const Edge& e) { return !selected[e.src] || !readers[e.dst]; });
    return std::move(copying).built();
  }

 private:
  std::optional<Where> to_;
};

/// Adds control edges from the selected ops to ops of `to`. Throws InputError if they close a
/// cycle.
class AddEdge final : public Verb {
 public:
  explicit AddEdge(Options& o)
      : to_(read_to(o)), pairs_(read_enum(o, "pairs", EdgePairs::all, "which pairs of ops")) {
    if (!to_) o.mistake("to", "missing: the conditions of the ops that wait");
  }

  bool needs_times() const override { return to_ && to_->needs_times(); }

  Change apply(const Scope& scope, const Selection& selected) const override {
    constexpr std::size_t most = 10'000'000;
    const OpGraph& graph = scope.graph();
    const Selection waiting = to_->select(scope);
    Copying copying(graph);
    copying.ops();
    copying.edges();
    std::size_t added = 0;
    for (const OpId v : graph.ops()) {
      if (!selected[v]) continue;
      for (const OpId w : graph.ops()) {
        if (!waiting[w] || w == v) continue;
        if (pairs_ == EdgePairs::layer && graph.module(v) != graph.module(w)) continue;
        if (++added > most) throw InputError(fmt::format("more than {} edges", most));
        copying.builder().add_control(copying.made(v), copying.made(w));
      }
    }
    return std::move(copying).built();
  }

 private:
  std::optional<Where> to_;
  EdgePairs pairs_;
};

}  // namespace

std::unique_ptr<Verb> make_drop_edges(Options& o) { return std::make_unique<DropEdges>(o); }
std::unique_ptr<Verb> make_add_edge(Options& o) { return std::make_unique<AddEdge>(o); }

}  // namespace baechi::what_if
