#include <boost/graph/adjacency_list.hpp>
#include <boost/graph/biconnected_components.hpp>
#include <boost/pending/disjoint_sets.hpp>
#include <sstream>

#include "placers/exact/pipelines.h"
#include "placers/interface/placer.h"

namespace baechi::partition {
namespace {

/// Contracts ops connected by several paths (of each biconnected component all ops that read from
/// another op of it), then takes the best pipeline along linear orders of all ops.
/// Source: PipeDream (Narayanan et al., SOSP 2019), as the baseline of Tarnawski et al., NeurIPS
/// 2020: without replication. Differs: several linear orders are tried, not one.
class PipeDream final : public Placer {
 public:
  explicit PipeDream(Options& o) {
    std::istringstream names(o.get(
        "ignore", "",
        "names of ops whose outputs do not count as paths, such as inputs with many readers"));
    for (std::string name; names >> name;) ignore_.push_back(name);
  }

  Placement place(const Problem& p, std::uint64_t /*seed*/) const override {
    const ColocationUnits units(p.graph);
    const OpGraph joined = join(p.graph, units);
    const Problem coarse{joined, p.cluster, p.costs, p.engine};
    const ColocationUnits wholes(joined);
    const std::vector<DeviceClass> classes = device_classes(coarse);
    const auto pipeline = exact::best_linear_pipeline(coarse, wholes, classes, Duration::max());
    if (!pipeline)
      throw InfeasibleError(fmt::format("pipedream: {}, of those that were searched",
                                        exact::why_none_fits(coarse, wholes, classes, "pipeline")));
    return {.device = pipeline->device,
            .facts = {{"max_load_us", to_us(pipeline->load)},
                      {"units", static_cast<double>(wholes.size())}}};
  }

 private:
  using Graph =
      boost::adjacency_list<boost::vecS, boost::vecS, boost::undirectedS, boost::no_property,
                            boost::property<boost::edge_index_t, std::size_t>>;

  /// The forward ops and the other ops of a unit are two vertices of the graph of paths, but one
  /// set in the result.
  OpGraph join(const OpGraph& graph, const ColocationUnits& units) const {
    const auto vertex = [&](OpId v) {
      return 2 * index(units.of(v)) + (graph.op(v).phase == Phase::forward ? 0U : 1U);
    };
    std::set<std::size_t> ignored;
    for (const std::string& name : ignore_) {
      const auto v = graph.find(name);
      if (!v) throw InputError(fmt::format("pipedream: no op '{}' to ignore", name));
      ignored.insert(vertex(*v));
    }
    std::set<std::pair<std::size_t, std::size_t>> paths;
    for (const EdgeId e : graph.edges()) {
      const std::size_t a = vertex(graph.edge(e).src), b = vertex(graph.edge(e).dst);
      if (a != b && !ignored.contains(a)) paths.emplace(a, b);
    }
    boost::disjoint_sets_with_storage<> sets(2 * units.size());
    for (std::size_t u = 0; u < units.size(); ++u) sets.union_set(2 * u, 2 * u + 1);
    join_components(paths, sets);
    IdVector<OpId, GroupId> group(graph.num_ops());
    std::vector<std::string> names;
    for (std::size_t v = 0; v < 2 * units.size(); ++v) names.push_back(fmt::format("part{}", v));
    for (const OpId v : graph.ops()) group[v] = static_cast<GroupId>(sets.find_set(vertex(v)) + 1);
    return graph.with_groups(group, names);
  }

  template <class Sets>
  static void join_components(const std::set<std::pair<std::size_t, std::size_t>>& paths,
                              Sets& sets) {
    Graph graph;
    std::vector<std::pair<std::size_t, std::size_t>> edges;
    for (const auto& [a, b] : paths) {
      if (b < a && paths.contains({b, a})) continue;  // the reverse of an edge that was added
      add_edge(a, b, edges.size(), graph);
      edges.emplace_back(a, b);
    }
    std::vector<std::size_t> component(edges.size());
    const auto edge_index = get(boost::edge_index, graph);
    const std::size_t count = boost::biconnected_components(
        graph, boost::make_iterator_property_map(component.begin(), edge_index));
    std::vector<std::optional<std::size_t>> first(count);
    for (std::size_t e = 0; e < edges.size(); ++e) {
      const auto [a, b] = edges[e];
      for (const auto& [tail, head] : {std::pair(a, b), std::pair(b, a)}) {
        if (!paths.contains({tail, head})) continue;
        auto& representative = first[component[e]];
        if (!representative) representative = tail;
        sets.union_set(*representative, tail);
      }
    }
  }

  std::vector<std::string> ignore_;
};

}  // namespace

std::unique_ptr<Placer> make_pipedream(Options& o) { return std::make_unique<PipeDream>(o); }

}  // namespace baechi::partition
