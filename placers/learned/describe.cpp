#include "placers/learned/describe.h"

#include <algorithm>
#include <array>

#include "placers/learned/arithmetic.h"
#include "placers/learned/environment.h"
#include "sim/graph/analysis.h"
#include "sim/problem/mean_costs.h"

namespace baechi::learned {
namespace {

constexpr std::size_t width = unit_feature_names.size();
using Row = std::array<double, width>;

double number(Duration d) {
  return static_cast<double>(d.count());
}

/// The longest path that ends before each op, transfers included. [num_ops]
IdVector<OpId, Duration> top_levels(const OpGraph& graph, const IdVector<OpId, Duration>& compute,
                                    const IdVector<TensorId, Duration>& transfer) {
  IdVector<OpId, Duration> level(graph.num_ops(), Duration{});
  for (const OpId v : graph.ops())
    for (const EdgeId e : graph.in_edges(v)) {
      const Edge& edge = graph.edge(e);
      level[v] = std::max(level[v], level[edge.src] + compute[edge.src] + transfer[edge.tensor]);
    }
  return level;
}

}  // namespace

double free_share(Bytes left, Bytes limit) {
  if (limit.count <= 0) return 0.0;
  return std::clamp(static_cast<double>(left.count) / static_cast<double>(limit.count), 0.0, 1.0);
}

std::vector<double> unit_features(const Environment& environment) {
  const Problem& p = environment.problem();
  const auto compute = mean_compute(p);
  const auto transfer = mean_transfer(p);
  const auto bottom = b_levels(p.graph, compute, transfer);
  const auto top = top_levels(p.graph, compute, transfer);
  Duration path{1};
  for (const OpId v : p.graph.ops()) path = std::max(path, bottom[v]);
  Bytes memory{1};
  for (const DeviceId d : p.cluster.devices())
    memory = std::max(memory, p.cluster.device(d).memory);
  const auto share = [&](Bytes b) {
    return std::min(static_cast<double>(b.count) / static_cast<double>(memory.count), 1.0);
  };

  double work = 1.0, moved = 0.0;
  for (const OpId v : p.graph.ops()) {
    work += number(compute[v]);
    for (const TensorId t : p.graph.outputs(v)) moved += number(transfer[t]);
  }
  const IdVector<TensorId, Duration> instant(p.graph.num_tensors(), Duration{});
  double longest_work = 1.0;
  for (const Duration level : b_levels(p.graph, compute, instant))
    longest_work = std::max(longest_work, number(level));
  const double width_of_graph = squashed(
      work / longest_work / static_cast<double>(std::max<std::size_t>(p.cluster.num_devices(), 1)));

  std::vector<Row> rows(environment.num_bundles());
  double longest = 1.0, longest_transfer = 1.0;
  for (std::size_t b = 0; b < rows.size(); ++b) {
    double time = 0.0, sends = 0.0;
    Duration above{}, below = path;
    Bytes outputs{}, workspace{};
    std::array<double, 3> phase{};
    for (const OpId v : environment.members(b)) {
      time += number(compute[v]);
      for (const TensorId t : p.graph.outputs(v)) sends = std::max(sends, number(transfer[t]));
      above = std::max(above, bottom[v]);
      below = std::min(below, top[v]);
      outputs += output_bytes(p.graph, v);
      workspace = std::max(workspace, p.graph.op(v).temporary);
      phase[static_cast<std::size_t>(p.graph.op(v).phase)] = 1.0;
    }
    longest = std::max(longest, time);
    longest_transfer = std::max(longest_transfer, sends);
    const auto degree = [](std::span<const std::uint32_t> neighbours) {
      return squashed(static_cast<double>(neighbours.size()) / 4.0);
    };
    rows[b] = {time,
               sends,
               time + sends > 0.0 ? sends / (time + sends) : 0.0,
               number(above) / number(path),
               std::min(number(below) / number(path), 1.0),
               degree(environment.graph().parents.at(b)),
               degree(environment.graph().children.at(b)),
               share(environment.needs(b).persistent),
               share(workspace),
               share(outputs),
               phase[0],
               phase[1],
               phase[2],
               width_of_graph,
               moved / (work + moved)};
  }
  std::vector<double> all;
  all.reserve(rows.size() * width);
  for (Row& row : rows) {
    row[0] /= longest;
    row[1] /= longest_transfer;
    all.insert(all.end(), row.begin(), row.end());
  }
  return all;
}

}  // namespace baechi::learned
