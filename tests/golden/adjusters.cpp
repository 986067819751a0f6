#include "tests/golden/adjusters.h"

#include "placers/adjust.h"

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

}  // namespace

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

}  // namespace baechi::golden
