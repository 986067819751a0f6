// The tables of unit/: one record per entry.

#include "tests/golden/goldens.h"
#include "tests/golden/replay.h"
#include "tests/golden/transforms.h"

namespace baechi::golden {
namespace {

void check_comm_cost(Record& record) {
  const OriginalCosts::Fit fit{.us_per_byte = record.input("coef").get<double>(),
                               .intercept_us = record.input("intercept").get<double>()};
  json got = json::array();
  for (const json& value : record.input("values")) {
    const Bytes size{value.at(0).get<std::int64_t>()};
    got.push_back({size.count, us(OriginalCosts::transfer_time(size, fit))});
  }
  record.equal("values", got);
}

void check_rounding(Record& record) {
  const auto x = record.input("x").get<std::vector<double>>();
  const SctGraph any{.compute = {}, .edges = std::vector<SctGraph::Edge>(x.size())};
  json got = json::array();
  for (std::size_t i = 0; i < x.size(); ++i) got.push_back(1);
  for (const std::uint32_t e :
       favourite_edges(any, x, record.input("threshold").get<double>(), true))
    got[e] = 0;
  record.equal("rounded", got);
}

void check_favorites(Record& record) {
  SctGraph graph;
  graph.compute.resize(record.input("num_ops").get<std::size_t>());
  for (const json& edge : record.input("edges")) {
    graph.edges.push_back({edge.at(0).get<std::uint32_t>(), edge.at(1).get<std::uint32_t>(), {}});
    if (graph.edges.back().src >= graph.compute.size() ||
        graph.edges.back().dst >= graph.compute.size())
      throw InputError(fmt::format("no such edge: {}", edge.dump()));
  }
  const auto chosen = record.input("chosen").get<std::vector<std::uint32_t>>();
  for (const std::uint32_t e : chosen) {
    if (e >= graph.edges.size()) throw InputError(fmt::format("no edge {}", e));
  }
  const Favourites got = favourites(graph, chosen, true);
  record.equal("favorite", children(got.favourite));
  record.equal("parent", children(got.parent));
}

void check_recorded_groupers(Record& record) {
  const auto labels = record.input("groups").get<std::vector<std::vector<std::string>>>();
  std::vector<FusionEdge> edges;
  for (const json& edge : record.input("edges"))
    edges.push_back({OpId{edge.at(0).get<std::uint32_t>()}, OpId{edge.at(1).get<std::uint32_t>()}});
  record.equal("tf", tf_groups(labels));
  record.equal("coplace", coplaced_groups(labels, edges));
}

/// Over all optima, the range of each x, recorded with 6 digits: ours is within it.
void check_lp_faces(Record& record, const GoldenGraph& golden) {
  const SctGraph graph = original::sct_graph(named_graph(golden, tf_groups(golden)).graph);
  const SctSolution ours = solve_sct(graph);
  const auto low = record.input("lo").get<std::vector<double>>();
  const auto high = record.input("hi").get<std::vector<double>>();
  record.leave_out({"graph", "undetermined", "forced_favorite", "possible_favorite"});
  record.near("objective", ours.w / 1e3, 1e-6);
  record.equal("num_edges", graph.edges.size());
  if (low.size() != graph.edges.size() || high.size() != graph.edges.size())
    throw InputError("lo, hi: not one for each edge");
  constexpr double tolerance = 1e-5;
  for (std::size_t e = 0; e < low.size(); ++e)
    if (ours.x[e] < low[e] - tolerance || ours.x[e] > high[e] + tolerance)
      record.mismatch(fmt::format("x[{}]", e), fmt::format("{} to {}", low[e], high[e]),
                      fmt::format("{}", ours.x[e]));
}

}  // namespace

void check_unit(const std::string& name, const json& table, const std::string& file,
                const Documents& documents, Report& report) {
  // How fast the original was, and what its solvers' optima give m-SCT, which results/msr has, too.
  if (name == "python_timings" || name == "sct_solver_sensitivity") return;
  for (std::size_t i = 0; i < table.size(); ++i) {
    json graph;
    if (name == "lp_faces") {
      const std::string path = at(table[i], "graph").get<std::string>() + ".json";
      graph = documents("graphs/small/" + path);
      if (graph.is_null()) graph = documents("graphs/msr/" + path);
      if (graph.is_null()) {
        report.skip("results of a graph that is absent");
        continue;
      }
    }
    Record record(report, file, fmt::format("[{}]", i), table[i]);
    if (name == "comm_cost") {
      check_comm_cost(record);
    } else if (name == "rounding") {
      check_rounding(record);
    } else if (name == "favorites") {
      check_favorites(record);
    } else if (name == "lp_faces") {
      check_lp_faces(record, read_graph(graph));
    } else if (name == "groupers") {
      check_recorded_groupers(record);
    } else {
      throw InputError("no such table is known here");
    }
    record.finish();
  }
}

}  // namespace baechi::golden
