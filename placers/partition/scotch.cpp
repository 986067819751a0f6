// scotch.h needs these two first.
#include <scotch.h>

#include "placers/interface/placer.h"
#include "placers/partition/partition.h"

namespace baechi::partition {
namespace {

void require(int failed, const char* what) {
  if (failed != 0) throw std::runtime_error(std::string("scotch: ") + what + " failed");
}

/// A graph bound to its own Scotch context, with its own random numbers and one thread.
class ScotchGraph {
 public:
  ScotchGraph(const Partition::Graph& graph, std::uint64_t seed)
      : begin_(graph.begin.begin(), graph.begin.end()),
        weight_(graph.weight.begin(), graph.weight.end()),
        neighbour_(graph.neighbour.begin(), graph.neighbour.end()),
        cost_(graph.cost.begin(), graph.cost.end()) {
    require(SCOTCH_graphInit(&graph_), "graphInit");
    require(SCOTCH_graphBuild(&graph_, 0, static_cast<SCOTCH_Num>(weight_.size()), begin_.data(),
                              begin_.data() + 1, weight_.data(), nullptr,
                              static_cast<SCOTCH_Num>(neighbour_.size()), neighbour_.data(),
                              cost_.data()),
            "graphBuild");
    require(SCOTCH_contextInit(&context_), "contextInit");
    require(SCOTCH_contextThreadSpawn(&context_, 1, nullptr), "contextThreadSpawn");
    require(SCOTCH_contextRandomClone(&context_), "contextRandomClone");
    SCOTCH_contextRandomSeed(&context_, static_cast<SCOTCH_Num>(seed + 1));
    SCOTCH_contextRandomReset(&context_);
    require(SCOTCH_graphInit(&bound_), "graphInit");
    require(SCOTCH_contextBindGraph(&context_, &graph_, &bound_), "contextBindGraph");
  }
  ~ScotchGraph() {
    SCOTCH_graphExit(&bound_);
    SCOTCH_contextExit(&context_);
    SCOTCH_graphExit(&graph_);
  }
  ScotchGraph(const ScotchGraph&) = delete;
  ScotchGraph& operator=(const ScotchGraph&) = delete;

  std::vector<std::int64_t> partition(std::size_t parts) {
    std::vector<SCOTCH_Num> part(weight_.size());
    SCOTCH_Strat strategy;
    require(SCOTCH_stratInit(&strategy), "stratInit");
    const int failed =
        SCOTCH_graphPart(&bound_, static_cast<SCOTCH_Num>(parts), &strategy, part.data());
    SCOTCH_stratExit(&strategy);
    require(failed, "graphPart");
    return {part.begin(), part.end()};
  }

 private:
  std::vector<SCOTCH_Num> begin_, weight_, neighbour_, cost_;
  SCOTCH_Graph graph_{}, bound_{};
  SCOTCH_Context context_{};
};

}  // namespace

/// A balanced partition with the smallest edge cut that Scotch's default strategy finds.
/// Source: Tarnawski et al., NeurIPS 2020, the Scotch baseline. The authors' program has its
/// vertices in another order, so the parts differ.
std::unique_ptr<Placer> make_scotch(Options&) {
  return placer_of([](const Problem& p, std::uint64_t seed) -> Placement {
    const Partition partition(p);
    const Partition::Graph graph = partition.graph();
    std::vector<std::int64_t> part(graph.weight.size(), 0);
    if (!part.empty() && partition.devices().size() > 1)
      part = ScotchGraph(graph, seed).partition(partition.devices().size());
    return partition.in_ops(part);
  });
}

}  // namespace baechi::partition
