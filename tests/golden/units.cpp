// The tables of unit/: one record per entry.

#include <cmath>

#include "placers/solver/linear_program.h"
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

/// The linear program of m-SCT, row by row, which solve_sct() solves with its own formulation.
/// Columns: x of each edge, start of each op, w.
solver::LinearProgram favourite_program(const SctGraph& graph) {
  const auto us = [](Duration t) { return static_cast<double>(t.count()) / 1e3; };
  solver::LinearProgram program;
  const std::size_t num_edges = graph.edges.size();
  const std::size_t num_ops = graph.compute.size();
  for (std::size_t e = 0; e < num_edges; ++e) program.add_column(0.0, 1.0);
  for (std::size_t v = 0; v < num_ops; ++v)
    program.add_column(0.0, solver::LinearProgram::infinity);
  const std::uint32_t w = program.add_column(0.0, solver::LinearProgram::infinity);
  const auto start = [num_edges](std::size_t v) {
    return static_cast<std::uint32_t>(num_edges + v);
  };

  std::vector<std::vector<solver::LinearProgram::Term>> out(num_ops);
  std::vector<std::vector<solver::LinearProgram::Term>> in(num_ops);
  for (std::uint32_t e = 0; e < num_edges; ++e) {
    const auto [src, dst, communication] = graph.edges[e];
    const solver::LinearProgram::Term row[] = {
        {start(dst), 1.0}, {start(src), -1.0}, {e, -us(communication)}};
    program.add_row(us(graph.compute[src]), row, solver::LinearProgram::infinity);
    out[src].push_back({e, 1.0});
    in[dst].push_back({e, 1.0});
  }
  for (std::size_t v = 0; v < num_ops; ++v) {
    const solver::LinearProgram::Term row[] = {{w, 1.0}, {start(v), -1.0}};
    program.add_row(us(graph.compute[v]), row, solver::LinearProgram::infinity);
    for (const auto* edges : {&out[v], &in[v]}) {
      if (!edges->empty())
        program.add_row(static_cast<double>(edges->size()) - 1.0, *edges,
                        solver::LinearProgram::infinity);
    }
  }
  return program;
}

/// The least (sign 1) or largest (-1) value of a column.
double extreme(solver::LinearProgram& program, std::size_t column, double sign) {
  program.objectives = {std::vector<double>(program.num_columns(), 0.0)};
  program.objectives[0][column] = sign;
  const solver::LinearOptimum optimum = solve(program);
  BAECHI_CHECK(optimum.status == solver::LinearOptimum::Status::optimal, "the face is not empty");
  return optimum.x[column];
}

/// Over all optima, the range of each x. Recorded with 6 digits, and w may be 1e-6 us too large.
void check_lp_faces(Record& record, const GoldenGraph& golden) {
  const SctGraph graph = original::sct_graph(named_graph(golden, tf_groups(golden)).graph);
  const SctSolution ours = solve_sct(graph);
  const auto low = record.input("lo").get<std::vector<double>>();
  const auto high = record.input("hi").get<std::vector<double>>();
  record.near("objective", ours.w / 1e3, 1e-6);
  record.equal("num_edges", graph.edges.size());
  if (low.size() != graph.edges.size() || high.size() != graph.edges.size())
    throw InputError("lo, hi: not one for each edge");

  constexpr double tolerance = 1e-5;
  solver::LinearProgram program = favourite_program(graph);
  const std::size_t w = program.num_columns() - 1;
  program.column_upper[w] = extreme(program, w, 1.0) + 1e-6;
  std::size_t free = 0;
  std::size_t forced = 0;
  std::size_t possible = 0;
  for (std::size_t e = 0; e < low.size(); ++e) {
    const double least = extreme(program, e, 1.0);
    const double most = extreme(program, e, -1.0);
    if (std::abs(least - low[e]) > tolerance)
      record.mismatch(fmt::format("lo[{}]", e), fmt::format("{}", low[e]),
                      fmt::format("{}", least));
    if (std::abs(most - high[e]) > tolerance)
      record.mismatch(fmt::format("hi[{}]", e), fmt::format("{}", high[e]),
                      fmt::format("{}", most));
    if (ours.x[e] < least - tolerance || ours.x[e] > most + tolerance)
      record.mismatch(fmt::format("x[{}]", e), fmt::format("{} to {}", least, most),
                      fmt::format("{}", ours.x[e]));
    if (most - least > tolerance) ++free;
    if (most <= 0.1) ++forced;
    if (least <= 0.1) ++possible;
  }
  record.equal("undetermined", free);
  record.equal("forced_favorite", forced);
  record.equal("possible_favorite", possible);
}

/// The favourites that a solver's optimum gives m-SCT are known of graphs whose linear program is
/// among results/msr: by GLPK, at a threshold of 0.1. `programs`: its `lp`, or null.
void check_sensitivity(Record& record, const GoldenGraph& golden, const json& programs) {
  const NamedGraph graph = named_graph(golden, tf_groups(golden));
  const auto place = [&](original::Algorithm algorithm, std::span<const std::uint32_t> favourites) {
    return original::place(graph.graph, IdVector<DeviceId, Bytes>(golden.devices, Bytes{1LL << 50}),
                           {.algorithm = algorithm, .colocation = false}, favourites);
  };
  const auto simulated = [&](const original::PlacerResult& placed) {
    return us(original::simulate(graph.graph, placed.device, golden.devices).result.makespan);
  };
  const original::PlacerResult etf = place(original::Algorithm::m_etf, {});
  Duration work{};
  for (const OpId v : graph.graph.ops()) work += graph.graph.op(v).compute;
  record.equal("ops", graph.graph.num_ops());
  record.equal("etf", us(etf.makespan));
  record.equal("etf_v", simulated(etf));
  record.equal("one_device", us(work));
  if (programs.contains("unfused") && programs["unfused"].value("solver", "") == "glpk") {
    const auto edges = at(programs["unfused"], "fav_edges").get<std::vector<std::uint32_t>>();
    const std::vector<std::uint32_t> favourite = favourites_of_edges(graph.graph, edges);
    const original::PlacerResult sct = place(original::Algorithm::m_sct, favourite);
    record.equal("sct_glpk_0.1", us(sct.makespan));
    record.equal("sctv_glpk_0.1", simulated(sct));
    record.equal("chosen_glpk_0.1", edges.size());
    record.equal("fav_glpk_0.1", favourite.size() - static_cast<std::size_t>(std::ranges::count(
                                                        favourite, no_favourite)));
  }
  const double optimum = solve_sct(original::sct_graph(graph.graph), {.canonical = false}).w / 1e3;
  for (const char* solver : {"glpk", "conelp"}) {
    record.near(fmt::format("obj_{}", solver).c_str(), optimum, 1e-6);
    record.leave_out({fmt::format("lp_{}", solver).c_str()});  // seconds
    for (const char* field : {"sct", "sctv", "fav", "chosen"}) {
      for (const char* threshold : {"0.1", "0.5"})
        record.leave_out({fmt::format("{}_{}_{}", field, solver, threshold).c_str()});
    }
  }
}

}  // namespace

/// Whether a graph that an entry of `table` names is among the documents.
static bool any_graph_of(const json& table, const Documents& documents) {
  return std::ranges::any_of(table, [&](const json& entry) {
    const std::string path = at(entry, "graph").get<std::string>() + ".json";
    return !documents("graphs/small/" + path).is_null() ||
           !documents("graphs/msr/" + path).is_null();
  });
}

void check_unit(const std::string& name, const json& table, const std::string& file,
                const Documents& documents, Report& report) {
  if (name == "python_timings") return;  // how fast the original was: no results
  for (std::size_t i = 0; i < table.size(); ++i) {
    GoldenGraph graph;
    json programs;
    if (name == "lp_faces" || name == "sct_solver_sensitivity") {
      const std::string path = at(table[i], "graph").get<std::string>() + ".json";
      json found = documents("graphs/small/" + path);
      if (found.is_null()) found = documents("graphs/msr/" + path);
      if (found.is_null() && !any_graph_of(table, documents)) {
        report.skip("results of a graph that is absent");
        continue;
      }
      if (found.is_null()) {  // the others are there: the name is wrong
        Record record(report, file, fmt::format("[{}]", i), table[i]);
        record.mismatch("graph", "the name of a graph", table[i]["graph"].dump());
        for (const auto& [field, value] : table[i].items()) record.leave_out({field.c_str()});
        record.finish();
        continue;
      }
      graph = read_graph(found);
      const json results = documents("results/msr/" + path);
      if (results.contains("lp")) programs = results["lp"];
    }
    Record record(report, file, fmt::format("[{}]", i), table[i]);
    if (name == "comm_cost") {
      check_comm_cost(record);
    } else if (name == "rounding") {
      check_rounding(record);
    } else if (name == "favorites") {
      check_favorites(record);
    } else if (name == "lp_faces") {
      record.leave_out({"graph"});
      check_lp_faces(record, graph);
    } else if (name == "sct_solver_sensitivity") {
      record.leave_out({"graph"});
      check_sensitivity(record, graph, programs);
    } else if (name == "groupers") {
      check_recorded_groupers(record);
    } else {
      throw InputError("no such table is known here");
    }
    record.finish();
  }
}

}  // namespace baechi::golden
