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

/// The best below `bound` over several lines; nothing if there is none. A line is a topological
/// order in which the bundle that became ready last comes next, from the first or the last bundle
/// on, with leaves apart and joined. Takes time in the square of the bundles. Source: Tarnawski et
/// al., NeurIPS 2020, linearization. Differs: several orders, not one.
std::optional<Pipeline> best_linear_pipeline(const Problem& problem, const ColocationUnits& units,
                                             const std::vector<DeviceClass>& classes,
                                             Duration bound, const Replication& replication = {});

/// As many ideals as exact_dp searches unless told otherwise.
constexpr std::size_t exact_dp_ideals = 100'000;

/// The best known of all pipelines.
struct IdealSearch {
  std::optional<Pipeline> pipeline{};  ///< below the bound; nothing: there is none
  std::size_t ideals = 0;              ///< 0: more than allowed, and nothing was searched
  bool leaves_joined = false;  ///< leaves had to stay with their neighbours: some were left out
};
/// Over all ideals, if there are at most `most`.
IdealSearch search_ideals(const Problem& problem, const ColocationUnits& units,
                          const std::vector<DeviceClass>& classes, Duration bound, std::size_t most,
                          const Replication& replication = {});

/// No split's busiest device has a smaller load: the work of all bundles, shared out at will. Also,
/// for each n, its load if the n longest bundles are given out: the shortest of them where several
/// must go together. Transfers and memory are left out.
Duration load_bound(const Bundles& bundles, const std::vector<DeviceClass>& classes);

/// The first of these two: it holds for parts with replicas, too.
Duration work_bound(const Bundles& bundles, const std::vector<DeviceClass>& classes);

/// For the InfeasibleError: names a unit that no device can take, or says that the weights fit in
/// no `what` ("pipeline", "split").
std::string why_none_fits(const Problem& problem, const ColocationUnits& units,
                          const std::vector<DeviceClass>& classes, std::string_view what);

}  // namespace baechi::exact
