#include "placers/search/space.h"

#include <algorithm>

namespace baechi::search {

SearchSpace::SearchSpace(const Problem& problem) : problem_(problem), units_(problem.graph) {
  find_neighbours();
  find_able();
  for (const UnitId u : units_.units())
    if (is_movable(u)) movable_.push_back(u);
}

bool SearchSpace::can_run(UnitId u, DeviceId d) const {
  return std::ranges::binary_search(able(u), d);
}

void SearchSpace::find_neighbours() {
  const OpGraph& graph = problem_.graph;
  begin_.push_back(0);
  for (const UnitId u : units_.units()) {
    std::vector<UnitId> found;
    for (const OpId v : units_.members(u)) {
      for (const OpId before : graph.predecessors(v)) found.push_back(units_.of(before));
      for (const EdgeId e : graph.out_edges(v)) found.push_back(units_.of(graph.edge(e).dst));
    }
    std::ranges::sort(found);
    const auto repeated = std::ranges::unique(found);
    found.erase(repeated.begin(), repeated.end());
    std::erase(found, u);
    neighbours_.insert(neighbours_.end(), found.begin(), found.end());
    begin_.push_back(neighbours_.size());
  }
}

void SearchSpace::find_able() {
  able_of_ = IdVector<UnitId, std::uint32_t>(units_.size());
  std::vector<DeviceId> able;
  for (const UnitId u : units_.units()) {
    able.clear();
    for (const DeviceId d : problem_.cluster.devices()) {
      const auto runs = [&](OpId v) { return problem_.costs.compute(v, d) != cannot_run; };
      if (std::ranges::all_of(units_.members(u), runs)) able.push_back(d);
    }
    const auto known = std::ranges::find(able_, able);
    able_of_[u] = static_cast<std::uint32_t>(known - able_.begin());
    if (known == able_.end()) able_.push_back(able);
  }
}

}  // namespace baechi::search
