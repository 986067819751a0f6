// Runs of the original's PyTorch variant.

#include "tests/golden/goldens.h"
#include "tests/golden/replay.h"

namespace baechi::golden {
namespace {

/// PT1: one tensor per edge, named by the number of the edge, or, if `shared`, by its contents, so
/// that edges may share it.
NamedGraph one_tensor_per_edge(const NamedGraph& named, bool shared) {
  const original::Graph& graph = named.graph;
  IdVector<OpId, original::Graph::Op> ops;
  for (const OpId v : graph.ops()) ops.push_back(graph.op(v));
  std::vector<std::string> names;
  std::map<std::string, std::uint32_t> known;
  std::vector<original::Graph::Read> reads;
  for (const EdgeId e : graph.edges()) {
    Bytes size;
    std::string name;
    for (const original::Graph::Send& s : graph.sends(e)) {
      size += s.size;
      name += (name.empty() ? "" : "+") + named.tensors[index(s.tensor)];
    }
    if (!shared) name = std::to_string(index(e));
    const auto [at, fresh] = known.emplace(name, static_cast<std::uint32_t>(names.size()));
    if (fresh) names.push_back(name);
    reads.push_back({graph.edge(e).src,
                     graph.edge(e).dst,
                     {.tensor = TensorId{at->second}, .size = size, .time = graph.time(e)}});
  }
  return {original::Graph(std::move(ops), reads), std::move(names), named.group_names};
}

original::PlacerOptions options_of(Record& record) {
  const std::string algorithm = record.input("algo").get<std::string>();
  original::PlacerOptions options{.variant = Variant::pytorch, .colocation = false};
  if (algorithm == "topo_cap" || algorithm == "topo_nocap") {
    options.algorithm = original::Algorithm::m_topo;
    options.uniform = algorithm == "topo_cap";
  } else if (algorithm == "etf") {
    options.algorithm = original::Algorithm::m_etf;
  } else if (algorithm == "sct") {
    options.algorithm = original::Algorithm::m_sct;
    options.threshold = record.input("threshold").get<double>();
  } else {
    throw InputError(fmt::format("no algorithm '{}' (topo_cap, topo_nocap, etf, sct)", algorithm));
  }
  return options;
}

/// The name of a tensor, which the placer identifies by number.
std::string message_of(const original::Failure& failure, const std::vector<std::string>& tensors) {
  constexpr std::string_view before = "not enough memory to rcv tensor ";
  if (!failure.message.starts_with(before)) return failure.message;
  const std::string rest = failure.message.substr(before.size());
  return std::string(before) + tensors.at(std::stoul(rest)) + rest.substr(rest.find(' '));
}

/// [num_ops] How many ops were started before each.
json positions(const std::vector<OpId>& order) {
  json list = std::vector<std::size_t>(order.size());
  for (std::size_t i = 0; i < order.size(); ++i) list[index(order[i])] = i;
  return list;
}

json without_transfers(const json& events) {
  json list = json::array();
  for (const json& event : events) {
    if (event.at(0) == "op") list.push_back(event);
  }
  return list;
}

void check_outcome(Record& record, const original::PlacerResult& result,
                   const original::PlacerOptions& options,
                   const std::vector<std::string>& tensors) {
  record.equal("status", result.failure ? "error" : "ok");
  if (result.cap) record.equal("cap", result.cap->count);
  record.equal("used_memory", bytes(result.used));
  record.equal("peak_memory", bytes(result.peak));
  if (result.failure) {
    record.equal("error", {{"type", result.failure->type},
                           {"where", result.failure->where},
                           {"msg", message_of(*result.failure, tensors)}});
    record.equal("partial_placement", ids(result.device, original::no_device));
    if (options.algorithm != original::Algorithm::m_topo)
      record.equal("num_scheduled", result.order.size());
    return;
  }
  record.equal("placement", ids(result.device, original::no_device));
  record.equal("topo_order", positions(result.order));
  if (options.algorithm != original::Algorithm::m_topo)
    record.equal("est_makespan", us(result.makespan));
}

void check_pytorch_run(const json& run, Workload& workload, const std::string& file,
                       const std::string& name, Report& report) {
  Record record(report, file, name, run);
  record.leave_out({"mem"});
  const NamedGraph& plain = workload.grouped("tf");
  const NamedGraph graph = one_tensor_per_edge(plain, record.input("shared_names").get<bool>());
  const original::PlacerOptions options = options_of(record);
  const Bytes limit{record.input("memory_limit").get<std::int64_t>()};
  std::vector<std::uint32_t> favourites;
  if (options.algorithm == original::Algorithm::m_sct)
    favourites = favourites_of(record, plain, workload, options.threshold, {});
  EventLog log(graph.tensors);
  const original::PlacerResult result = original::place(
      graph.graph, IdVector<DeviceId, Bytes>(workload.devices(), limit), options, favourites, &log);
  check_outcome(record, result, options, graph.tensors);
  if (options.algorithm != original::Algorithm::m_topo)
    record.equal("events", without_transfers(log.to_json()));
  record.finish();
}

}  // namespace

void check_pytorch(const json& results, const json& graph, const std::string& file,
                   Report& report) {
  Workload workload(read_graph(graph));
  {
    Record head(report, file, "head", results);
    head.leave_out({"graph", "file", "runs", "sum_all_memory"});
    head.equal("devices", workload.devices());
    head.finish();
  }
  const json& runs = at(results, "runs");
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const json& run = runs[i];
    const std::string name =
        fmt::format("runs[{}] {} mem={}{}", i, run.value("algo", "?"), run.value("mem", "?"),
                    run.value("shared_names", false) ? " shared" : "");
    check_pytorch_run(run, workload, file, name, report);
  }
}

}  // namespace baechi::golden
