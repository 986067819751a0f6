#include "placers/interface/registry.h"

int main() {
  using namespace baechi;
  OpGraphBuilder builder;
  const OpId a = builder.add_op({.name = "a", .compute = Duration(10)});
  const OpId b = builder.add_op({.name = "b", .compute = Duration(20)});
  builder.add_edge(builder.add_tensor(a, {100}), b);
  const OpGraph graph = std::move(builder).build();
  const Cluster cluster = Cluster::uniform(2, {1000}, {.bandwidth = {1e9}, .latency = {}});
  const ProfiledCosts costs(graph, cluster);
  const Problem problem{graph, cluster, costs};
  const Placement placement = make_placer("m_etf", Options("m_etf"))->place(problem, 1);
  std::printf("%lld ns\n", static_cast<long long>(simulate(problem, placement).makespan.count()));
}
