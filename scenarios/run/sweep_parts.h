/// The parts of a sweep: for sweep.cpp and make_sweep.cpp alone.
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "scenarios/run/recent_cache.h"
#include "scenarios/run/sweep.h"

namespace baechi {

/// Where the things of one file begin in the numbering through all files.
struct FileStart {
  std::size_t point = 0, run = 0, graph = 0, costed = 0;
  /// [clusters]: equal numbers where equal kinds of devices time the file's graphs, 0 to num_kinds.
  std::vector<std::size_t> kinds{};
  std::size_t num_kinds = 0;
  std::vector<std::uint64_t> devices{};  ///< [clusters]: a hash of all that a lower bound asks
};

struct SweepParts {
  std::vector<ScenarioFile> files{};
  std::vector<FileStart> starts{};   ///< [files]
  std::vector<SweepGraph> graphs{};  ///< per file: by graph, transforms, kind of cluster
  ResultsHeader header{};
  struct Hashes {
    std::uint64_t key = 0, point = 0;  ///< Sweep::key(), Sweep::point_hash()
  };
  std::vector<Hashes> hashes{};  ///< [runs]: each is asked for several times
  std::vector<std::string> warnings{};
  std::unique_ptr<RecentCache<CostedGraph>> costed = std::make_unique<RecentCache<CostedGraph>>();
  std::unique_ptr<RecentCache<LowerBounds>> bounds = std::make_unique<RecentCache<LowerBounds>>();
  std::unique_ptr<RecentCache<PlacerAnswer>> answers =
      std::make_unique<RecentCache<PlacerAnswer>>();

  /// `check`: its limits, too, which make_sweep() has checked.
  std::shared_ptr<const CostedGraph> costed_graph(std::size_t number, const SweepGraph& graph,
                                                  const ClusterChoice& cluster,
                                                  bool check = false) const {
    return costed->of(
        number, [&] { return std::make_shared<CostedGraph>(graph.prepared, cluster, check); });
  }
};

/// A hash of the devices and their calibration: all of a cluster that a lower bound depends on.
std::uint64_t hash_of_devices(const ClusterChoice& cluster);
/// A hash of all but the memory: of what decides how long ops, transfers and collectives take.
std::uint64_t hash_of_times(const ClusterChoice& cluster);

}  // namespace baechi
