#include "placers/original/etf.h"
#include "placers/original/original.h"
#include "placers/original/pytorch.h"
#include "placers/original/topo.h"
#include "sim/error.h"

namespace baechi::original {

std::optional<PlacerOptions> read_options(Options& options, PlacerOptions from) {
  const bool compat =
      options.get("compat", false, "reproduce the original's code, quirks included");
  from.colocation = options.get("colocation", true,
                                "with compat: respect groups (pytorch: never); without, always");
  const bool pytorch = from.variant == Variant::pytorch;
  if (pytorch && from.reserve)
    options.mistake("reserve", "has no meaning for the pytorch variant, which never frees memory");
  if (pytorch) from.colocation = false;
  if (compat && !pytorch && from.reserve && !from.colocation)
    options.mistake("reserve",
                    "with compat it needs colocation: the original stops at the first "
                    "op (KeyError)");
  return compat ? std::optional(from) : std::nullopt;
}

PlacerResult place(const Graph& graph, const IdVector<DeviceId, Bytes>& limits,
                   const PlacerOptions& options, std::span<const std::uint32_t> favourites,
                   Log* log) {
  BAECHI_CHECK(!limits.empty(), "no devices");
  const bool pytorch = options.variant == Variant::pytorch;
  if (options.algorithm == Algorithm::m_topo)
    return (pytorch ? pytorch_topo : topo)(graph, limits, options);
  if (options.algorithm == Algorithm::m_etf) {
    favourites = {};
  } else {
    BAECHI_CHECK(favourites.size() == graph.num_ops(), "favourites of {} ops for {}",
                 favourites.size(), graph.num_ops());
  }
  return (pytorch ? pytorch_scheduler : tensorflow_scheduler)(graph, limits, options, favourites,
                                                              log)
      ->run();
}

SctGraph sct_graph(const Graph& graph) {
  SctGraph result;
  for (const OpId v : graph.ops()) result.compute.push_back(graph.op(v).compute);
  for (const EdgeId e : graph.edges()) {
    const Graph::Edge& edge = graph.edge(e);
    result.edges.push_back({static_cast<std::uint32_t>(edge.src),
                            static_cast<std::uint32_t>(edge.dst), graph.time(e)});
  }
  return result;
}

namespace {

/// The Python exception of the failure, and its meaning.
std::string explained(const Failure& failure, const OpGraph& graph) {
  std::string text = fmt::format("{} in {} ({})", failure.type, failure.where, failure.file);
  if (!failure.message.empty()) text += fmt::format(": {}", failure.message);
  if (failure.op != no_op) text += fmt::format(", at op '{}'", graph.name(failure.op));
  if (failure.where == "run") text += ": no ready op fits on any device";
  return text;
}

}  // namespace

Placement place(const Problem& problem, const PlacerOptions& options) {
  const Graph graph = options.variant == Variant::pytorch
                          ? pytorch_graph(problem)
                          : Graph::from(problem.graph, problem.costs, problem.cluster);
  IdVector<DeviceId, Bytes> limits;
  for (const DeviceId d : problem.cluster.devices())
    limits.push_back(problem.cluster.device(d).memory);

  Placement placement;
  Favourites chosen;
  if (options.algorithm == Algorithm::m_sct) {
    const SctGraph program = sct_graph(graph);
    const SctSolution solution = solve_sct(program);
    constexpr bool compat = true;
    chosen = favourites(program, favourite_edges(program, solution.x, options.threshold, compat),
                        compat);
    placement.facts["lp_us"] = solution.w / 1e3;
  }
  PlacerResult result = place(graph, limits, options, chosen.favourite);
  if (result.failure)
    throw InfeasibleError(fmt::format("{}, as the original: {}", to_text(options.algorithm),
                                      explained(*result.failure, problem.graph)));
  placement.device = std::move(result.device);
  if (options.algorithm != Algorithm::m_topo)
    placement.facts["planned_step_us"] = to_us(result.makespan);
  return placement;
}

}  // namespace baechi::original
