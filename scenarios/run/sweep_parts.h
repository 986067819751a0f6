/// The parts of a sweep: for sweep.cpp and make_sweep.cpp alone.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "scenarios/run/recent_cache.h"
#include "scenarios/run/sweep.h"

namespace baechi {

/// The first indices of one file's parts in the numbering over all files.
struct FileStart {
  std::size_t point = 0, run = 0, graph = 0, costed = 0;
  /// [clusters] equal numbers, 0 to num_kinds, if the graphs have the same times there.
  std::vector<std::size_t> kinds{};
  std::size_t num_kinds = 0;
  std::vector<std::uint64_t>
      devices{};  ///< [clusters] a hash of everything that affects a lower bound
};

struct SweepParts {
  std::vector<ScenarioFile> files{};
  std::vector<FileStart> starts{};   ///< [files]
  std::vector<SweepGraph> graphs{};  ///< per file: by graph, transforms, kind of cluster
  ResultsHeader header{};
  struct Hashes {
    std::uint64_t key = 0, point = 0;  ///< Sweep::key(), Sweep::point_hash()
  };
  std::vector<Hashes> hashes{};  ///< [runs] cached, because each is used several times
  std::vector<std::string> warnings{};
  std::unique_ptr<RecentCache<CostedGraph>> costed = std::make_unique<RecentCache<CostedGraph>>();
  std::unique_ptr<RecentCache<LowerBounds>> bounds = std::make_unique<RecentCache<LowerBounds>>();
  std::unique_ptr<RecentCache<PlacerAnswer>> answers =
      std::make_unique<RecentCache<PlacerAnswer>>();

  /// `check`: also checks limits, which make_sweep() has already done for all.
  std::shared_ptr<const CostedGraph> costed_graph(std::size_t number, const SweepGraph& graph,
                                                  const ClusterChoice& cluster,
                                                  bool check = false) const {
    return costed->of(
        number, [&] { return std::make_shared<CostedGraph>(graph.prepared, cluster, check); });
  }
};

/// A hash of the devices and their calibration: everything in a cluster that affects a lower bound.
std::uint64_t hash_of_devices(const ClusterChoice& cluster);
/// A hash of the cluster without memory: everything that affects the times of ops, transfers and
/// collectives.
std::uint64_t hash_of_times(const ClusterChoice& cluster);

}  // namespace baechi
