/// A problem as an input of general graph partitioners: weighted bundles for parts of equal weight,
/// and the costs of cutting between two bundles.
#pragma once

#include "placers/exact/bundles.h"

namespace baechi::partition {

/// Bundles are colocation units; units that a pipeline cannot run apart are one bundle. They go to
/// accelerators, or to all devices if there are no accelerators. A bundle that some of these
/// devices cannot run is not free: it is fixed to the first device that runs it.
/// Source: Tarnawski et al., NeurIPS 2020, the Scotch baseline.
class Partition {
 public:
  /// Throws InfeasibleError if no device runs all ops of a bundle.
  explicit Partition(const Problem& problem);

  const std::vector<DeviceClass>& classes() const { return classes_; }
  const exact::Bundles& bundles() const { return bundles_; }
  std::span<const DeviceId> devices() const { return devices_; }
  bool free(exact::BundleId b) const { return vertex_[b] != fixed_vertex; }
  DeviceId fixed(exact::BundleId b) const { return home_[b]; }

  /// The graph of the free bundles, undirected: for vertex i the neighbours (ascending) and costs
  /// from begin[i] to begin[i + 1].
  struct Graph {
    std::vector<std::int64_t> weight;  ///< ns on the first of devices()
    std::vector<std::size_t> begin{0};
    std::vector<std::uint32_t> neighbour;
    std::vector<std::int64_t> cost;  ///< ns to move the tensors between the two
  };
  Graph graph() const;

  /// The placement of the ops from the device of each bundle, or from the part of each vertex of
  /// the free bundles.
  Placement in_ops(const IdVector<exact::BundleId, DeviceId>& device) const;
  Placement in_ops(std::span<const std::int64_t> part) const;  ///< [vertices], into devices()

 private:
  static constexpr std::uint32_t fixed_vertex = ~0U;

  const Problem& problem_;
  std::vector<DeviceClass> classes_;
  exact::Bundles bundles_;
  std::size_t class_ = 0;  // of devices_.front()
  std::vector<DeviceId> devices_;
  IdVector<exact::BundleId, DeviceId> home_;         // of fixed bundles
  IdVector<exact::BundleId, std::uint32_t> vertex_;  // of free bundles
  std::size_t num_vertices_ = 0;
};

}  // namespace baechi::partition
