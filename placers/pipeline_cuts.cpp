#include "placers/pipeline_cuts.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace baechi {
namespace {

constexpr std::int64_t impossible = std::numeric_limits<std::int64_t>::max();

/// The costs of a line of modules.
struct ModuleLine {
  std::size_t modules = 0, devices = 0;
  std::vector<Bytes> weights;           // [modules]
  std::vector<std::int64_t> time;       // [modules, devices], of the module's ops there, in ns
  std::vector<std::int64_t> on_others;  // [modules, devices], of ops placed on other devices
  std::vector<DeviceId> order;          // of the devices that the placement uses
};

ModuleLine line_of(const Problem& p, const WholeModules& modules, const Placement& placement) {
  ModuleLine line;
  line.modules = modules.names.size();
  line.devices = p.cluster.num_devices();
  line.weights.resize(line.modules);
  line.time.assign(line.modules * line.devices, 0);
  line.on_others.assign(line.modules * line.devices, 0);
  std::vector<double> position(line.devices, 0.0), weight(line.devices, 0.0);
  for (const OpId v : p.graph.ops()) {
    const std::uint32_t m = modules.of[v];
    if (m == WholeModules::none) continue;
    line.weights[m] += p.graph.op(v).persistent;
    for (const DeviceId d : p.cluster.devices()) {
      const std::int64_t time = p.costs.compute(v, d).count() + 1;  // ops without time count, too
      line.time[m * line.devices + index(d)] += time;
      if (placement.device[v] != d) {
        line.on_others[m * line.devices + index(d)] += time;
        continue;
      }
      position[index(d)] += static_cast<double>(m) * static_cast<double>(time);
      weight[index(d)] += static_cast<double>(time);
    }
  }
  for (const DeviceId d : p.cluster.devices())
    if (weight[index(d)] > 0.0) line.order.push_back(d);
  std::ranges::stable_sort(line.order, {},
                           [&](DeviceId d) { return position[index(d)] / weight[index(d)]; });
  return line;
}

/// The best cuts by dynamic programming: best[s][m] is the best value of the first m modules on the
/// first s devices of the order, and from[s][m] the module that stage s then begins with.
class Cutting {
 public:
  Cutting(const Problem& p, const ModuleLine& line, CutGoal goal)
      : p_(p), line_(line), goal_(goal) {}

  std::optional<PipelineCuts> run() {
    const std::size_t n = line_.modules, stages = line_.order.size();
    std::vector<std::vector<std::int64_t>> best(stages + 1,
                                                std::vector<std::int64_t>(n + 1, impossible));
    std::vector<std::vector<std::size_t>> from(stages + 1, std::vector<std::size_t>(n + 1, 0));
    best[0][0] = 0;
    for (std::size_t s = 1; s <= stages; ++s) {
      const DeviceId d = line_.order[s - 1];
      for (std::size_t end = 0; end <= n; ++end) {
        best[s][end] = best[s - 1][end];  // no modules on this device
        from[s][end] = end;
        std::int64_t cost = 0;
        Bytes weights{};
        for (std::size_t begin = end; begin-- > 0;) {
          weights += line_.weights[begin];
          if (weights > p_.cluster.device(d).memory) break;
          cost += of(begin, d);
          if (best[s - 1][begin] == impossible) continue;
          const std::int64_t value = goal_ == CutGoal::nearest ? best[s - 1][begin] + cost
                                                               : std::max(best[s - 1][begin], cost);
          if (value > best[s][end] || (value == best[s][end] && from[s][end] == end)) continue;
          best[s][end] = value;
          from[s][end] = begin;
        }
      }
    }
    if (best[stages][n] == impossible) return std::nullopt;
    return cuts(from);
  }

 private:
  std::int64_t of(std::size_t module, DeviceId d) const {
    const auto& all = goal_ == CutGoal::nearest ? line_.on_others : line_.time;
    return all[module * line_.devices + index(d)];
  }

  PipelineCuts cuts(const std::vector<std::vector<std::size_t>>& from) const {
    PipelineCuts result;
    result.of_module.resize(line_.modules);
    std::size_t end = line_.modules;
    for (std::size_t s = line_.order.size(); s > 0; --s) {
      const std::size_t begin = from[s][end];
      if (begin == end) continue;
      result.first.push_back(static_cast<std::uint32_t>(begin));
      result.device.push_back(line_.order[s - 1]);
      for (std::size_t m = begin; m < end; ++m) result.of_module[m] = line_.order[s - 1];
      end = begin;
    }
    std::ranges::reverse(result.first);
    std::ranges::reverse(result.device);
    return result;
  }

  const Problem& p_;
  const ModuleLine& line_;
  CutGoal goal_;
};

}  // namespace

std::optional<PipelineCuts> cut_line(const Problem& problem, const WholeModules& modules,
                                     const Placement& placement, CutGoal goal) {
  const ModuleLine line = line_of(problem, modules, placement);
  return Cutting(problem, line, goal).run();
}

}  // namespace baechi
