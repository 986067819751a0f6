/// The parts of a sweep: for sweep.cpp and make_sweep.cpp alone.
#pragma once
#include <algorithm>
#include <cstdint>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "scenarios/run/sweep.h"

namespace baechi {

/// Keeps the 64 most recent values. Thread-safe: a thread that requests a value that another thread
/// is computing waits for it.
template <class T>
class RecentCache {
 public:
  /// The value of `key`. If it is not kept, calls `make` and returns its result as
  /// std::shared_ptr<const T>. If `make` throws, nothing is kept.
  std::shared_ptr<const T> of(std::uint64_t key, const auto& make) {
    const std::shared_ptr<Entry> entry = entry_of(key);
    std::call_once(entry->once, [&] { entry->value = make(); });
    return entry->value;
  }

 private:
  static constexpr std::size_t most = 64;
  struct Entry {
    explicit Entry(std::uint64_t k) : key(k) {}
    const std::uint64_t key;
    std::once_flag once;
    std::shared_ptr<const T> value;
  };

  std::shared_ptr<Entry> entry_of(std::uint64_t key) {
    const std::lock_guard lock(mutex_);
    const auto it = std::ranges::find(entries_, key, [](const auto& e) { return e->key; });
    if (it != entries_.end()) return *it;
    entries_.push_front(std::make_shared<Entry>(key));
    if (entries_.size() > most) entries_.pop_back();
    return entries_.front();
  }

  std::mutex mutex_;
  std::list<std::shared_ptr<Entry>> entries_;  // most recent first
};

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
