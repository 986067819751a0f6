#include "sim/cluster/device_model.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "sim/error.h"

namespace baechi {
namespace {

/// The peaks that the kernels of one kind of op reach, in flops and bytes per second.
struct Reached {
  std::array<double, all<Precision>().size()> flops{};
  double traffic = 0.0;
};

double seconds_of(const OpWork& kernel, const DeviceModel& model, const Reached& reached) {
  double seconds = 0.0;
  if (kernel.flops > 0)
    seconds = (static_cast<double>(kernel.flops) + model.at(kernel.precision).half_flops) /
              reached.flops[static_cast<std::size_t>(kernel.precision)];
  if (kernel.traffic > Bytes{})
    seconds = std::max(seconds, static_cast<double>((kernel.traffic + model.half_traffic).count) /
                                    reached.traffic);
  return seconds;
}

void check_format(const DeviceModel& model, Precision p, std::string_view op) {
  if (model.at(p).peak > FlopRate{}) return;
  std::vector<std::string_view> known;
  for (const Precision q : all<Precision>())
    if (model.arithmetic[static_cast<std::size_t>(q)].peak > FlopRate{})
      known.push_back(to_text(q));
  throw InputError(fmt::format("op '{}' computes in {}, of which {} has no peak (peaks: {})", op,
                               to_text(p), model.name, fmt::join(known, ", ")));
}

}  // namespace

double Efficiency::of(std::string_view kind) const {
  // A beginning of `kind` sorts before it, and a longer one after a shorter one.
  for (auto it = by_kind.upper_bound(kind); it != by_kind.begin();) {
    --it;
    if (kind.starts_with(it->first)) return it->second;
  }
  return other;
}

const Arithmetic& DeviceModel::at(Precision p) const {
  const Arithmetic& own = arithmetic[static_cast<std::size_t>(p)];
  return p == Precision::tf32 && own.peak == FlopRate{} ? at(Precision::fp32) : own;
}

std::array<Arithmetic, all<Precision>().size()> in_every_format(const Arithmetic& one) {
  std::array<Arithmetic, all<Precision>().size()> same;
  same.fill(one);
  return same;
}

IdVector<OpId, Duration> roofline_times(const OpGraph& graph, const DeviceModel& model) {
  std::vector<Reached> reached(graph.kinds().size());
  for (std::size_t k = 0; k < reached.size(); ++k) {
    for (const Precision p : all<Precision>())
      reached[k].flops[static_cast<std::size_t>(p)] =
          model.at(p).peak.flop_per_second * model.at(p).efficiency.of(graph.kinds()[k]);
    reached[k].traffic = model.bandwidth.bytes_per_second * model.bandwidth_efficiency;
  }
  IdVector<OpId, Duration> times(graph.num_ops(), model.no_kernel);
  for (const Collective& c : graph.collectives())
    for (const OpId member : c.member_ids()) times[member] = Duration::zero();
  for (const OpId v : graph.ops()) {
    const auto kernels = graph.kernels(v);
    if (!kernels.empty()) times[v] = Duration::zero();
    for (const OpWork& kernel : kernels) {
      if (kernel.flops > 0) check_format(model, kernel.precision, graph.name(v));
      const double seconds = seconds_of(kernel, model, reached[graph.op(v).kind]);
      constexpr double most = 4.6e9;  // seconds: 146 years
      if (!(to_us(times[v]) / 1e6 + seconds < most))
        throw InputError(fmt::format(
            "op '{}' takes more than 146 years on {}: a kernel of {} flops and {} bytes",
            graph.name(v), model.name, kernel.flops, kernel.traffic.count));
      times[v] += model.launch + Duration{static_cast<std::int64_t>(std::ceil(seconds * 1e9))};
    }
  }
  return times;
}

}  // namespace baechi
