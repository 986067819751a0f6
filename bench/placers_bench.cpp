#include <benchmark/benchmark.h>

#include "bench/layered_graph.h"
#include "placers/interface/registry.h"
#include "placers/list/schedule.h"
#include "placers/sct/favourite_child.h"

namespace baechi::bench {
namespace {

void place(benchmark::State& state, std::string_view placer, std::size_t devices,
           EngineOptions engine = {}) {
  const OpGraph& graph = layered(state.range(0));
  const Cluster on = cluster(devices);
  const ProfiledCosts costs(graph, on);
  for (auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    const auto made =
        make_placer(placer, Options(std::string(placer)));  // none has a cached program
    const Placement placement = made->place({graph, on, costs, engine}, 0);
    benchmark::DoNotOptimize(placement.device.data());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}

SctGraph layered_sct_graph(std::int64_t ops) {
  const Cluster two = cluster(2);
  const ProfiledCosts costs(layered(ops), two);
  return sct_graph({layered(ops), two, costs});
}

/// The favourite children in layered(ops), found once per process. Not thread-safe.
const IdVector<OpId, OpId>& layered_favourites(std::int64_t ops) {
  static std::map<std::int64_t, IdVector<OpId, OpId>> found;
  auto it = found.find(ops);
  if (it != found.end()) return it->second;
  const SctGraph sct = layered_sct_graph(ops);
  const SctSolution solution = solve_sct(sct);
  IdVector<OpId, OpId> favourite(sct.compute.size(), no_op);
  for (const std::uint32_t e : favourite_edges(sct, solution.x, 0.1))
    favourite[static_cast<OpId>(sct.edges[e].src)] = static_cast<OpId>(sct.edges[e].dst);
  return found.emplace(ops, std::move(favourite)).first->second;
}

}  // namespace

static void m_topo(benchmark::State& state) { place(state, "m_topo", 8); }
BENCHMARK(m_topo)->RangeMultiplier(10)->Range(1000, 1000000)->Unit(benchmark::kMillisecond);

static void m_etf(benchmark::State& state) { place(state, "m_etf", 8); }
BENCHMARK(m_etf)->RangeMultiplier(10)->Range(1000, 1000000)->Unit(benchmark::kMillisecond);

static void m_etf_4_devices(benchmark::State& state) { place(state, "m_etf", 4); }
BENCHMARK(m_etf_4_devices)->Arg(22000)->Arg(1000000)->Unit(benchmark::kMillisecond);

static void m_etf_64_devices(benchmark::State& state) { place(state, "m_etf", 64); }
BENCHMARK(m_etf_64_devices)->Arg(22000)->Unit(benchmark::kMillisecond);

static void m_sct(benchmark::State& state) { place(state, "m_sct", 8); }
BENCHMARK(m_sct)->Arg(1000)->Arg(10000)->Unit(benchmark::kMillisecond);

/// List scheduling alone: the favourite children are already known.
static void m_sct_without_lp_4_devices(benchmark::State& state) {
  const OpGraph& graph = layered(state.range(0));
  const Cluster on = cluster(4);
  const ProfiledCosts costs(graph, on);
  const list::PlaceOptions options{.favourite = layered_favourites(state.range(0))};
  for (auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    const Placement placement = list::place({graph, on, costs}, options, "m_sct");
    benchmark::DoNotOptimize(placement.device.data());
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(m_sct_without_lp_4_devices)->Arg(22000)->Unit(benchmark::kMillisecond);

static void favourite_child_lp(benchmark::State& state) {
  const SctGraph sct = layered_sct_graph(state.range(0));
  for (auto _ : state) {  // NOLINT(clang-analyzer-deadcode.DeadStores)
    const SctSolution solution = solve_sct(sct);
    benchmark::DoNotOptimize(solution.w);
  }
  state.SetItemsProcessed(state.iterations() * state.range(0));
}
BENCHMARK(favourite_child_lp)->Arg(1000)->Arg(10000)->Arg(22000)->Unit(benchmark::kMillisecond);

}  // namespace baechi::bench
