#include "tests/golden/replay.h"

#include "tests/golden/transforms.h"

namespace baechi::golden {
namespace {

/// A run's graph and how its ops map to those of the unfused graph.
struct Target {
  const NamedGraph* graph = nullptr;
  const FusedGraph* fused = nullptr;  // null if the run is not
};

original::PlacerOptions options_of(Record& record) {
  const std::string algorithm = record.input("algo").get<std::string>();
  original::PlacerOptions options{.colocation = record.input("coloc").get<bool>()};
  if (algorithm == "topo") {
    options.algorithm = original::Algorithm::m_topo;
    options.uniform = record.input("uniform").get<bool>();
  } else if (algorithm == "etf" || algorithm == "sct") {
    options.algorithm =
        algorithm == "etf" ? original::Algorithm::m_etf : original::Algorithm::m_sct;
    options.reserve = record.input("reserve").get<bool>();
    if (algorithm == "sct") options.threshold = record.input("threshold").get<double>();
  } else {
    throw InputError(fmt::format("no algorithm '{}' (topo, etf, sct)", algorithm));
  }
  return options;
}

/// The objective of a given x: the longest path if an edge costs x times its time.
double length_with(const original::Graph& graph, const std::vector<double>& x) {
  // Not by Op::topo, which a fused graph has from its ops (Q13).
  std::vector<std::size_t> unmet;
  for (const OpId v : graph.ops()) unmet.push_back(graph.in_edges(v).size());
  std::vector<OpId> queue;
  for (const OpId v : graph.ops()) {
    if (unmet[index(v)] == 0) queue.push_back(v);
  }
  IdVector<OpId, double> end(graph.num_ops());
  double longest = 0.0;
  for (std::size_t i = 0; i < queue.size(); ++i) {
    const OpId v = queue[i];
    end[v] += static_cast<double>(graph.op(v).compute.count()) / 1e3;
    longest = std::max(longest, end[v]);
    for (const EdgeId e : graph.out_edges(v)) {
      const original::Graph::Edge& edge = graph.edge(e);
      end[edge.dst] = std::max(
          end[edge.dst], end[v] + x[index(e)] * static_cast<double>(graph.time(e).count()) / 1e3);
      if (--unmet[index(edge.dst)] == 0) queue.push_back(edge.dst);
    }
  }
  return longest;
}

/// The largest violation of a bound or a degree row by `x`.
double infeasibility(const original::Graph& graph, const std::vector<double>& x) {
  double worst = 0.0;
  for (const double value : x) worst = std::max({worst, -value, value - 1.0});
  for (const OpId v : graph.ops()) {
    double kept = 0.0;
    for (const EdgeId e : graph.out_edges(v)) kept += 1.0 - x[index(e)];
    worst = std::max(worst, kept - 1.0);
    kept = 0.0;
    for (const EdgeId e : graph.in_edges(v)) kept += 1.0 - x[index(e)];
    worst = std::max(worst, kept - 1.0);
  }
  return worst;
}

/// An x is one of many optima, so it must be feasible and optimal, but not equal to ours.
void check_x(Record& record, const NamedGraph& graph, double optimum) {
  constexpr double tolerance = 1e-6;
  const auto x = record.input("lp_x").get<std::vector<double>>();
  if (x.size() != graph.graph.num_edges()) throw InputError("lp_x: not one for each edge");
  const double broken = infeasibility(graph.graph, x);
  if (broken > tolerance)
    record.mismatch("lp_x", "a solution", fmt::format("rows broken by {}", broken));
  const double length = length_with(graph.graph, x);
  if (length > optimum + tolerance * std::max(1.0, optimum))
    record.mismatch("lp_x", fmt::format("the optimum, {}", optimum), fmt::format("{}", length));
}

std::string message_of(const original::Failure& failure, const NamedGraph& graph) {
  if (failure.type != "KeyError") return failure.message;
  const std::string& group = graph.group_names[index(graph.graph.op(failure.op).group)];
  return group.empty() ? "None" : "'" + group + "'";
}

void check_outcome(Record& record, const original::PlacerResult& result, const NamedGraph& graph,
                   const original::PlacerOptions& options) {
  record.equal("status", result.failure ? "error" : "ok");
  if (result.cap) record.equal("cap", result.cap->count);
  const json placement = ids(result.device, original::no_device);
  if (result.failure) {
    record.equal("error", {{"type", result.failure->type},
                           {"where", result.failure->where},
                           {"file", result.failure->file},
                           {"msg", message_of(*result.failure, graph)}});
    record.equal("partial_placement", placement);
    if (options.algorithm != original::Algorithm::m_topo)
      record.equal("num_scheduled", result.order.size());
    return;
  }
  record.equal("placement", placement);
  if (options.algorithm == original::Algorithm::m_topo) {
    record.equal("topo_used", bytes(result.used));
  } else {
    record.equal("est_makespan", us(result.makespan));
    record.equal("peak_memory", bytes(result.peak));
    record.equal("final_memory", bytes(result.used));
  }
}

/// The event log within `owner`: whole, or its length and hash. A record of its own.
void check_events(const json& owner, const EventLog& log, const std::string& file,
                  const std::string& name, Report& report) {
  json fields = json::object();
  for (const char* field : {"events", "events_fnv1a64", "num_events"}) {
    if (owner.contains(field)) fields[field] = owner[field];
  }
  if (fields.empty()) return;
  Record record(report, file, name, fields);
  if (record.has("events")) record.equal("events", log.to_json());
  record.equal("num_events", log.size());
  record.equal("events_fnv1a64", log.fnv1a64());
  record.finish();
}

void check_virtual(const json& run, const IdVector<OpId, DeviceId>& placement, Workload& workload,
                   const std::string& file, const std::string& name, Report& report) {
  const NamedGraph& graph = workload.grouped("tf");
  EventLog log(graph.tensors);
  const original::Step step = original::simulate(graph.graph, placement, workload.devices(), &log);
  Record record(report, file, name, at(run, "virtual"));
  record.leave_out({"wall_s", "cpu_s", "events", "num_events", "events_fnv1a64"});
  IdVector<DeviceId, Bytes> peak;
  for (const DeviceUse& use : step.result.devices) peak.push_back(use.peak);
  record.equal("makespan", us(step.result.makespan));
  record.equal("peak_memory", bytes(peak));
  record.equal("final_memory", bytes(step.final_memory));
  record.finish();
  check_events(at(run, "virtual"), log, file, name + " events", report);
}

/// The placement of a fused graph, of each op that went into it.
IdVector<OpId, DeviceId> unfused(const IdVector<OpId, DeviceId>& placement, const FusedGraph& fused,
                                 std::size_t num_ops) {
  IdVector<OpId, DeviceId> result(num_ops, original::no_device);
  for (const OpId v : placement.ids()) {
    for (const std::size_t op : fused.ops[index(v)])
      result[OpId{static_cast<std::uint32_t>(op)}] = placement[v];
  }
  return result;
}

}  // namespace

std::vector<std::uint32_t> favourites_of(Record& record, const NamedGraph& graph,
                                         Workload& workload, double threshold,
                                         const FavouriteEdges& known) {
  record.leave_out({"solver", "lp"});
  if (!record.has("lp_x")) {
    const auto& edges = known.find(record.input("lp_ref").get<std::string>());
    if (edges == known.end()) throw InputError("lp_ref names no linear program");
    return favourites_of_edges(graph.graph, edges->second);
  }
  const double optimum = workload.lp_optimum(graph);
  record.near("lp_objective", optimum, 1e-6);
  check_x(record, graph, optimum);
  const auto x = record.input("lp_x").get<std::vector<double>>();
  if (x.size() != graph.graph.num_edges()) throw InputError("lp_x: not one for each edge");
  return check_favourites(record, graph,
                          favourite_edges(original::sct_graph(graph.graph), x, threshold, true));
}

void check_run(const json& run, Workload& workload, const FavouriteEdges& known,
               const std::string& file, const std::string& name, Report& report) {
  Record record(report, file, name, run);
  record.leave_out(
      {"wall_s", "cpu_s", "seed", "mem", "virtual", "events", "num_events", "events_fnv1a64"});
  const std::string grouper = record.input("grouper").get<std::string>();
  const bool disjoint_paths = record.has("fusion_check_disjoint_paths") &&
                              record.input("fusion_check_disjoint_paths").get<bool>();
  Target target;
  if (record.input("fused").get<bool>()) {
    target.fused = &workload.fused(grouper, disjoint_paths);
    target.graph = &target.fused->named;
  } else {
    target.graph = &workload.grouped(grouper);
  }
  const original::PlacerOptions options = options_of(record);
  const Bytes limit{record.input("memory_limit").get<std::int64_t>()};
  std::vector<std::uint32_t> favourites;
  if (options.algorithm == original::Algorithm::m_sct)
    favourites = favourites_of(record, *target.graph, workload, options.threshold, known);

  EventLog log(target.graph->tensors);
  const original::PlacerResult result =
      original::place(target.graph->graph, IdVector<DeviceId, Bytes>(workload.devices(), limit),
                      options, favourites, &log);
  check_outcome(record, result, *target.graph, options);
  IdVector<OpId, DeviceId> placement = result.device;
  if (target.fused != nullptr) {
    placement = unfused(placement, *target.fused, workload.golden().ops.size());
    if (!result.failure) record.equal("op_placement", ids(placement, original::no_device));
  }
  record.finish();
  check_events(run, log, file, name + " events", report);
  if (run.contains("virtual") && !result.failure)
    check_virtual(run, placement, workload, file, name + " virtual", report);
}

std::vector<std::uint32_t> check_favourites(Record& record, const NamedGraph& graph,
                                            const std::vector<std::uint32_t>& favourite_edges) {
  record.equal("fav_edges", favourite_edges);
  std::vector<std::uint32_t> favourite = favourites_of_edges(graph.graph, favourite_edges);
  record.equal("favorite", children(favourite));
  return favourite;
}

std::vector<std::uint32_t> favourites_of_edges(const original::Graph& graph,
                                               const std::vector<std::uint32_t>& edges) {
  for (const std::uint32_t e : edges) {
    if (e >= graph.num_edges())
      throw InputError(fmt::format("no edge {} among {}", e, graph.num_edges()));
  }
  return favourites(original::sct_graph(graph), edges, true).favourite;
}

json children(const std::vector<std::uint32_t>& favourites) {
  json list = json::array();
  for (const std::uint32_t v : favourites) list.push_back(v == no_favourite ? -1 : std::int64_t{v});
  return list;
}

const NamedGraph& Workload::grouped(const std::string& grouper) {
  const auto known = grouped_.find(grouper);
  if (known != grouped_.end()) return known->second;
  if (grouper != "tf" && grouper != "coplace")
    throw InputError(fmt::format("no grouper '{}' (tf, coplace)", grouper));
  const auto groups = grouper == "tf" ? tf_groups(golden_) : coplaced_groups(golden_);
  return grouped_.emplace(grouper, named_graph(golden_, groups)).first->second;
}

double Workload::lp_optimum(const NamedGraph& graph) {
  const auto known = optimum_.find(&graph);
  if (known != optimum_.end()) return known->second;
  const double w = solve_sct(original::sct_graph(graph.graph), {.canonical = false}).w / 1e3;
  return optimum_.emplace(&graph, w).first->second;
}

const FusedGraph& Workload::fused(const std::string& grouper, bool disjoint_paths) {
  const std::pair key{grouper, disjoint_paths};
  const auto known = fused_.find(key);
  if (known != fused_.end()) return known->second;
  const FusionRules rules{.disjoint_paths = disjoint_paths, .requeue = false};  // Q24
  return fused_.emplace(key, read_fused(fused_record(golden_, grouped(grouper), rules)))
      .first->second;
}

}  // namespace baechi::golden
