/// Pipelines for a whole problem: over all ideals, or quickly, along lines of all bundles.
#pragma once

#include "placers/exact/ideals.h"
#include "sim/objective/replicas.h"

namespace baechi::exact {

/// A part of a pipeline, and its replicas.
struct PipelineStage {
  std::vector<DeviceId> devices;  ///< all of one class; its bundles are placed on the first
  Duration load{};                ///< of each of them, per sample
};

struct BundlePipeline {
  Duration load{};                        ///< of the device with most
  IdVector<BundleId, DeviceId> device{};  ///< [num_bundles]
  std::vector<PipelineStage> stages{};    ///< in the order of the pipeline
};

/// The cut of `bundles` along a chain of `ideals`, a device for each part, whose largest load is
/// least and below `bound`; nothing if there is none. Each device runs at most one part; an
/// accelerator's weights fit in its memory. With `replication`, a part may run on several devices
/// of one class.
///
/// least[i][devices used] = over ideals j in i, and the class and number of the devices that take i
/// \ j, the least of max(least[j][without these devices], load of i \ j there). The parts i \ j
/// are traversed depth-first, removing one bundle at a time. The number of pins in each net keeps
/// their loads up to date; nothing is stored for a pair of ideals. The traversal backtracks where
/// no class of device could take the part. An ideal is skipped if the rest would take the remaining
/// devices beyond `bound`, even divided at will and with free transfers. Throws InputError if the
/// table would need more than 160 MB: too many classes of devices.
/// Source: Tarnawski et al., NeurIPS 2020; the traversal, the bounds and the replicas are ours.
std::optional<BundlePipeline> best_pipeline(const Bundles& bundles,
                                            const std::vector<DeviceClass>& classes,
                                            const Ideals& ideals, Duration bound,
                                            const Replication& replication = {});

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

struct IdealSearch {
  std::optional<Pipeline> pipeline{};  ///< below the bound; nothing: there is none
  std::size_t ideals = 0;              ///< 0: more than allowed, and nothing was searched
  bool leaves_joined = false;  ///< leaves had to stay with their neighbours: some were left out
};
/// The best pipeline over all ideals, if there are at most `most`.
IdealSearch search_ideals(const Problem& problem, const ColocationUnits& units,
                          const std::vector<DeviceClass>& classes, Duration bound, std::size_t most,
                          const Replication& replication = {});

/// Lower bound on the load of the busiest device of any split: the work of all bundles, divided in
/// any fractions; and for each n, the load if only the n longest bundles are distributed, each
/// counted as the shortest of them where several must share a device. Transfers and memory are
/// ignored.
Duration load_bound(const Bundles& bundles, const std::vector<DeviceClass>& classes);

/// The first of the two bounds of load_bound(), which also holds for parts with replicas.
Duration work_bound(const Bundles& bundles, const std::vector<DeviceClass>& classes);

/// For the InfeasibleError: names a unit that no device can take, or says that the weights fit in
/// no `what` ("pipeline", "split").
std::string why_none_fits(const Problem& problem, const ColocationUnits& units,
                          const std::vector<DeviceClass>& classes, std::string_view what);

}  // namespace baechi::exact
