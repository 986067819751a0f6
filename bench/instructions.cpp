/// Runs the engine or a placer once, by name, so that valgrind's callgrind counts its instructions,
/// which do not depend on how busy the machine is. Only instructions inside measured() are counted;
/// bench/instructions.txt has the ceilings per op.
#include <cstdio>
#include <functional>
#include <map>
#include <string>

#include "bench/layered_graph.h"
#include "placers/interface/registry.h"
#include "sim/engine/simulation.h"

namespace baechi::bench {

constexpr std::int64_t num_ops = 20000;

[[gnu::noinline]] void measured(const std::function<void()>& run) {
  run();
}

int count(const std::string& name) {
  const OpGraph& graph = layered(num_ops);
  const Cluster eight = cluster(8);
  const ProfiledCosts costs(graph, eight);
  const Placement placement = mostly_local(graph, 8);
  const auto steps = [&](EngineOptions engine) {
    Simulator simulator({graph, eight, costs, engine});
    measured([&] { simulator.run(placement); });
  };
  const std::map<std::string, std::function<void()>> all{
      {"simulate", [&] { steps({}); }},
      {"simulate_without_accounting", [&] { steps({.count_memory = false}); }},
      {"simulate_original", [&] { steps({.semantics = Semantics::baechi}); }},
      {"m_etf",
       [&] {
         const auto placer = make_placer("m_etf");
         measured([&] { placer->place({graph, eight, costs}, 0); });
       }},
  };
  const auto it = all.find(name);
  if (it == all.end()) return 2;
  it->second();
  return 0;
}

}  // namespace baechi::bench

int main(int argc, char** argv) {
  return argc == 2 ? baechi::bench::count(argv[1]) : 2;
}
