#include "scenarios/run/evidence.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "scenarios/read/device_table.h"
#include "traces/generate/layers/state_space_layers.h"

namespace baechi {
namespace {

/// Whether GEMMs of that dtype were measured on the device type.
bool is_measured(const DeviceModel& device, Precision format) {
  const Arithmetic& units = device.at(format);
  return units.products.efficiency > 0.0 && format != Precision::fp32 && format != Precision::tf32;
}

bool is_timed_by(const OpGraph& graph, const DeviceModel& device) {
  return graph.has_work() &&
         std::ranges::find(graph.device_kinds(), device.name) != graph.device_kinds().end();
}

bool has_mixers(const OpGraph& graph) {
  return std::ranges::any_of(graph.kinds(), [](const std::string& kind) {
    return kind.starts_with(generate::mixer_module) ||
           kind.starts_with(to_text(generate::LayerKind::state_space));
  });
}

}  // namespace

std::vector<Evidence> evidence_of(const OpGraph& graph, const DeviceModel& device) {
  std::vector<Evidence> evidence{
      {device.name, device.fitted.empty() ? "unfitted: the data sheet's rates" : device.fitted}};
  if (has_mixers(graph))
    evidence.push_back({"mixers of Mamba-2", std::string(generate::mixer_fitted)});
  // Framework-specific device types are fitted for all of their dtypes.
  if (device.fitted.empty() || device.processors == 0) return evidence;
  std::set<Precision> formats;
  for (const OpId v : graph.ops())
    for (const OpWork& kernel : graph.kernels(v))
      if (kernel.matrix.kind != MatrixKind::none) formats.insert(kernel.precision);
  for (const Precision format : formats)
    if (!is_measured(device, format))
      evidence.push_back({fmt::format("{} in {}", device.name, to_text(format)),
                          "unfitted: parameters of 16-bit GEMMs with this dtype's peak"});
  return evidence;
}

std::vector<Evidence> evidence_of(const PreparedGraph& graph, const ClusterChoice& cluster) {
  std::vector<Evidence> all;
  std::set<std::string> seen;
  const auto add = [&](const DeviceModel& device) {
    if (!seen.insert(device.name).second) return;
    std::ranges::move(evidence_of(*graph.step, device), std::back_inserter(all));
  };
  for (const DeviceChoice& d : cluster.devices)
    if (d.model != nullptr && is_timed_by(*graph.step, *d.model)) add(*d.model);
  if (!graph.assumed_kind.empty()) add(*built_in_devices().devices.at(graph.assumed_kind));
  for (const Evidence& e : cluster.evidence)
    if (!e.of.starts_with("collectives") || !graph.step->collectives().empty()) all.push_back(e);
  return all;
}

std::string evidence_line(const std::vector<Evidence>& evidence) {
  std::string text;
  for (const Evidence& e : evidence)
    text += fmt::format("{}{}: {}", text.empty() ? "evidence     " : "; ", e.of, e.fitted);
  return text.empty() ? "" : text + "\n";
}

}  // namespace baechi
