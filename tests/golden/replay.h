/// Runs of the placers and the simulator, replayed on one workload.
#pragma once

#include "placers/original/original.h"
#include "tests/golden/events.h"
#include "tests/golden/graph.h"

namespace baechi::golden {

/// A graph, its groupings, and the solutions of the linear programs on them.
class Workload {
 public:
  explicit Workload(GoldenGraph graph) : golden_(std::move(graph)) {}

  const GoldenGraph& golden() const { return golden_; }
  std::size_t devices() const { return golden_.devices; }
  /// `grouper`: tf or coplace.
  const NamedGraph& grouped(const std::string& grouper);
  /// Fused as in the original; disjoint_paths is the only rule that runs vary.
  const FusedGraph& fused(const std::string& grouper, bool disjoint_paths = false);
  /// Optimum of the favourite child program on `graph`, in us; solved once per graph.
  double lp_optimum(const NamedGraph& graph);

 private:
  GoldenGraph golden_;
  std::map<std::string, NamedGraph> grouped_;
  std::map<std::pair<std::string, bool>, FusedGraph> fused_;
  std::map<const NamedGraph*, double> optimum_;
};

/// Favourite edges of a linear program by the name that runs of results/msr refer to.
using FavouriteEdges = std::map<std::string, std::vector<std::uint32_t>>;

/// One run and the records within it: itself, its event log, its simulation, that one's event log.
/// `run` holds configuration and outcome in one object.
void check_run(const json& run, Workload& workload, const FavouriteEdges& known,
               const std::string& file, const std::string& name, Report& report);

/// Favourite child of each op, or `no_favourite`, for an m-SCT run: from its own x, which is held
/// to be an optimum, or from the program of `known` that it refers to. Compares the fields about
/// them.
std::vector<std::uint32_t> favourites_of(Record& record, const NamedGraph& graph,
                                         Workload& workload, double threshold,
                                         const FavouriteEdges& known);

/// Fields of a linear program in a record: objective, favourites and the x that give them.
/// Returns the favourite child of each op, or `no_favourite`.
std::vector<std::uint32_t> check_favourites(Record& record, const NamedGraph& graph,
                                            const std::vector<std::uint32_t>& favourite_edges);
/// The favourite child of each op, or `no_favourite`. Throws InputError on an edge that is not
/// there.
std::vector<std::uint32_t> favourites_of_edges(const original::Graph& graph,
                                               const std::vector<std::uint32_t>& edges);
/// Ids by position, `no_favourite` as -1.
json children(const std::vector<std::uint32_t>& favourites);

}  // namespace baechi::golden
