/// Pipelines for a whole problem: over all ideals, or quickly, along lines of all bundles.
#pragma once
#include <optional>
#include <string_view>

#include "placers/exact/pipeline_program.h"

namespace baechi::exact {

/// A pipeline in ops.
struct Pipeline {
  Duration load{};
  IdVector<OpId, DeviceId> device{};  ///< [num_ops]; of several replicas, the first
  std::vector<PipelineStage> stages{};
};
Pipeline in_ops(const BundlePipeline& pipeline, const Bundles& bundles, const OpGraph& graph);

/// The best pipeline below `bound` over several linear orders; nothing if there is none. Each is a
/// topological order in which the bundle that became ready last comes next, from the first or the
/// last bundle on, with leaves apart and joined. Takes quadratic time in the bundles.
/// Source: Tarnawski et al., NeurIPS 2020, linearization. Differs: several orders, not one.
std::optional<Pipeline> best_linear_pipeline(const Problem& problem, const ColocationUnits& units,
                                             const std::vector<DeviceClass>& classes,
                                             Duration bound, const Replication& replication = {});

/// The default of exact_dp's option `max_ideals`.
constexpr std::size_t exact_dp_ideals = 100'000;

/// The result of search_ideals().
struct IdealSearch {
  std::optional<Pipeline> pipeline{};  ///< below the bound; nothing: there is none
  std::size_t ideals = 0;              ///< 0: more than allowed, and nothing was searched
  bool leaves_joined = false;  ///< leaves had to stay with their neighbours: some were left out
};
/// The best pipeline over all ideals, if there are at most `most`.
IdealSearch search_ideals(const Problem& problem, const ColocationUnits& units,
                          const std::vector<DeviceClass>& classes, Duration bound, std::size_t most,
                          const Replication& replication = {});

/// Lower bound on the load of the busiest device of any split: the work of all bundles, divided at
/// will; and for each n, the load if the n longest bundles are distributed, the shortest of them
/// where several must share a device. Transfers and memory are ignored.
Duration load_bound(const Bundles& bundles, const std::vector<DeviceClass>& classes);

/// The first of the two bounds of load_bound(), which also holds for parts with replicas.
Duration work_bound(const Bundles& bundles, const std::vector<DeviceClass>& classes);

/// For the InfeasibleError: names a unit that no device can take, or says that the weights fit in
/// no `what` ("pipeline", "split").
std::string why_none_fits(const Problem& problem, const ColocationUnits& units,
                          const std::vector<DeviceClass>& classes, std::string_view what);

}  // namespace baechi::exact
