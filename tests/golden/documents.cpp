// The documents of results/ and fuzz/, taken apart into records.

#include "placers/adjust.h"
#include "tests/golden/goldens.h"
#include "tests/golden/replay.h"
#include "tests/golden/transforms.h"

namespace baechi::golden {
namespace {

constexpr Bytes unlimited{std::int64_t{1} << 50};

/// The common input of all rows.
IdVector<OpId, DeviceId> base_placement(const NamedGraph& graph, std::size_t devices) {
  return original::place(graph.graph, IdVector<DeviceId, Bytes>(devices, unlimited),
                         {.algorithm = original::Algorithm::m_etf, .colocation = false})
      .device;
}

void check_adjuster(Record& record, const NamedGraph& graph,
                    const IdVector<OpId, DeviceId>& placement, Workload& workload) {
  record.leave_out({"grouper", "mem", "memory_limit", "with_memory_limit"});
  if (record.input("base") != "etf coloc=false mem=inf")
    throw InputError("base: not 'etf coloc=false mem=inf'");
  const std::string method = record.input("method").get<std::string>();
  const auto policy = parse<AdjustPolicy>(method == "noop" ? "none" : method);
  if (!policy) throw InputError(fmt::format("no adjuster '{}'", method));
  std::optional<Bytes> limit;
  if (record.input("with_memory_limit").get<bool>())
    limit = Bytes{record.input("memory_limit").get<std::int64_t>()};

  const std::size_t devices = workload.devices();
  const CompatAdjusted adjusted = adjust_compat(graph.graph, placement, devices, *policy, limit);
  record.equal("status", adjusted.failed ? "error" : "ok");
  if (adjusted.failed) {
    record.leave_out({"error"});
    return;
  }
  record.equal("placement", ids(adjusted.device, original::no_device));
  record.equal("device_size_after", bytes(adjusted.size));
  const original::Step step = original::simulate(workload.grouped("tf").graph, adjusted.device,
                                                 devices, nullptr, adjusted.size);
  IdVector<DeviceId, Bytes> peak;
  for (const DeviceUse& use : step.result.devices) peak.push_back(use.peak);
  record.equal("virtual_makespan", us(step.result.makespan));
  record.equal("virtual_peak", bytes(peak));
}

/// All rows of a results file; they start from its run of m-ETF without groups and limit.
void check_adjusters(const json& rows, Workload& workload, const std::string& file,
                     Report& report) {
  std::map<std::string, IdVector<OpId, DeviceId>> bases;  // by grouper
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const std::string grouper = at(rows[i], "grouper").get<std::string>();
    const NamedGraph& graph = workload.grouped(grouper);
    if (!bases.contains(grouper)) bases[grouper] = base_placement(graph, workload.devices());
    Record record(
        report, file,
        fmt::format("adjusters[{}] {} {}", i, at(rows[i], "method").get<std::string>(), grouper),
        rows[i]);
    check_adjuster(record, graph, bases[grouper], workload);
    record.finish();
  }
}

/// A record of one field: `object[field]` against `got`.
void check_field(const json& object, const char* field, const json& got, const std::string& file,
                 const std::string& name, Report& report) {
  if (!object.contains(field)) return;
  const json alone{{field, object[field]}};
  Record record(report, file, name, alone);
  record.equal(field, got);
  record.finish();
}

json topo_order(const original::Graph& graph) {
  json order = json::array();
  for (const OpId v : graph.ops()) order.push_back(graph.op(v).topo);
  return order;
}

json predecessors(const original::Graph& graph) {
  json order = json::object();
  for (const OpId v : graph.ops()) {
    json& list = order[fmt::format("{}", index(v))] = json::array();
    for (const EdgeId e : graph.in_edges(v)) list.push_back(index(graph.edge(e).src));
  }
  return order;
}

json group_infos(const NamedGraph& graph) {
  json infos = json::object();
  const auto groups = original::groups_of(graph.graph);
  for (const GroupId g : groups.ids()) {
    if (groups[g].members.empty()) continue;
    json members = json::array();
    for (const OpId v : groups[g].members) members.push_back(index(v));
    const std::string& name = graph.group_names[index(g)];
    infos[name.empty() ? "null" : name] = {{"ops", members},
                                           {"temp_max", groups[g].temporary_max.count},
                                           {"output_max", groups[g].outputs_max.count},
                                           {"persistent_sum", groups[g].persistent_sum.count},
                                           {"output_sum", groups[g].outputs_sum.count}};
  }
  return infos;
}

json group_of_ops(const NamedGraph& graph) {
  json names = json::array();
  for (const OpId v : graph.graph.ops()) {
    const std::string& name = graph.group_names[index(graph.graph.op(v).group)];
    names.push_back(name.empty() ? json() : json(name));
  }
  return names;
}

void check_groupers(const json& groupers, Workload& workload, const std::string& file,
                    Report& report) {
  for (const auto& [name, expected] : groupers.items()) {
    const NamedGraph& graph = workload.grouped(name);
    Record record(report, file, "groupers." + name, expected);
    record.leave_out({"wall_s", "cpu_s"});
    record.equal("group", group_of_ops(graph));
    record.equal("num_groups", graph.group_names.size() - 1);
    record.equal("infos", group_infos(graph));
    record.finish();
  }
}

/// A fused graph: all of it, or counts and the ops whose numbers are used (`old_ids`).
void check_fused(const json& expected, const FusionKey& key, Workload& workload,
                 const std::string& file, const std::string& name, Report& report) {
  const json fused = fused_record(workload.golden(), workload.grouped(key.grouper), key.rules);
  Record record(report, file, name, expected);
  record.leave_out({"wall_s", "cpu_s"});
  json old_ids = json::array();
  for (const json& node : fused["nodes"]) old_ids.push_back(node["old_id"]);
  record.equal("old_ids", old_ids);
  for (const auto& [field, got] : fused.items()) record.equal(field.c_str(), got);
  record.finish();
}

std::vector<std::uint32_t> edge_list(const json& record) {
  return at(record, "fav_edges").get<std::vector<std::uint32_t>>();
}

/// results/msr: the linear programs that its m-SCT runs refer to.
FavouriteEdges check_programs(const json& programs, Workload& workload, const std::string& file,
                              Report& report) {
  FavouriteEdges known;
  for (const auto& [name, program] : programs.items()) {
    known[name] = edge_list(program);
    const NamedGraph& graph =
        name == "fused" ? workload.fused("coplace").named : workload.grouped("tf");
    Record record(report, file, "lp." + name, program);
    record.leave_out({"solver", "status", "wall_s", "cpu_s", "rows", "cols", "nnz"});
    record.near("objective", workload.lp_optimum(graph), 1e-6);
    check_favourites(record, graph, known[name]);
    record.finish();
  }
  return known;
}

std::string run_name(std::size_t i, const json& run) {
  std::string name = fmt::format("runs[{}] {} {}", i, at(run, "algo").get<std::string>(),
                                 at(run, "grouper").get<std::string>());
  for (const char* flag : {"fused", "coloc", "reserve", "uniform"}) {
    if (run.value(flag, false)) name += fmt::format(" {}", flag);
  }
  if (run.contains("mem")) name += " mem=" + run["mem"].get<std::string>();
  return name;
}

/// The counts at the head of a results file.
void check_head(const json& results, Workload& workload, const std::string& file, Report& report) {
  const original::Graph& graph = workload.grouped("tf").graph;
  Record record(report, file, "head", results);
  record.leave_out({"graph", "file", "source", "mapping", "num_ops_in_file", "topo_order",
                    "pred_order", "groupers", "fusion", "lp", "runs", "adjusters",
                    "sum_temp_plus_output", "sum_persistent", "T"});
  record.equal("devices", workload.devices());
  record.equal("num_ops", graph.num_ops());
  record.equal("num_edges", graph.num_edges());
  record.finish();
}

}  // namespace

void check_results(const json& results, const json& graph, const std::string& file,
                   Report& report) {
  Workload workload(read_graph(graph));
  check_head(results, workload, file, report);
  const original::Graph& view = workload.grouped("tf").graph;
  check_field(results, "topo_order", topo_order(view), file, "topo_order", report);
  check_field(results, "pred_order", predecessors(view), file, "pred_order", report);
  if (results.contains("groupers")) check_groupers(results["groupers"], workload, file, report);
  if (results.contains("fusion")) {
    for (const auto& [key, fused] : results["fusion"].items())
      check_fused(fused, fusion_key(key), workload, file, "fusion." + key, report);
  }
  if (results.contains("adjusters")) check_adjusters(results["adjusters"], workload, file, report);
  FavouriteEdges programs;
  if (results.contains("lp")) programs = check_programs(results["lp"], workload, file, report);
  if (!results.contains("runs")) return;
  for (std::size_t i = 0; i < results["runs"].size(); ++i) {
    const json& run = results["runs"][i];
    check_run(run, workload, programs, file, run_name(i, run), report);
  }
}

void check_fuzz(const json& line, const std::string& file, Report& report) {
  json run = at(line, "config");
  run.update(at(line, "result"));
  const std::string grouper = at(run, "grouper").get<std::string>();
  Workload workload(read_graph(at(line, "graph")));
  check_field(line, "topo_order", topo_order(workload.grouped("tf").graph), file, "topo_order",
              report);
  check_field(line, "group", group_of_ops(workload.grouped(grouper)), file, "group", report);
  if (line.contains("fused")) {
    FusionKey key = fusion_key(grouper);
    key.rules.disjoint_paths = run.value("fusion_check_disjoint_paths", false);
    check_fused(line["fused"], key, workload, file, "fused", report);
  }
  check_run(run, workload, {}, file, run_name(0, run), report);
}

}  // namespace baechi::golden
