/// A problem as a policy sees it: its units, what is known of them, and what a placement is worth.
#pragma once
#include <array>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "placers/interface/colocation.h"
#include "placers/learned/network.h"
#include "sim/objective/objective.h"

namespace baechi::learned {

/// What the network is told of each unit, all from 0 to 1: times over the longest, levels over the
/// critical path, bytes over the memory of the largest device. The last two are the graph's: all
/// op times over those of the critical path and of all devices, and the share of transfers in all
/// times.
inline constexpr auto unit_feature_names = std::to_array<std::string_view>(
    {"time", "transfer", "transfer_share", "bottom_level", "top_level", "in_degree", "out_degree",
     "weights", "workspace", "outputs", "forward", "backward", "update", "graph_width",
     "graph_traffic"});

inline double in_ns(Duration d) {
  return static_cast<double>(d.count());
}

/// Per bundle a device.
using BundleDevices = std::vector<DeviceId>;

/// One problem. Bundles are what a policy places as a whole: the colocation units, of which those
/// joined by the heaviest transfers are merged, if there are more than `most_units`, until at most
/// `most_bundles` are left (heavy-edge matching, as multilevel partitioners do it).
class Environment {
 public:
  static constexpr std::size_t most_units = 400, most_bundles = 256;

  /// The parts of `problem` and `objective` outlive this. Asks single, m_topo, m_etf, m_sct and
  /// heft, those that find a placement and do not refuse the graph, for the reference.
  /// Throws InfeasibleError if a unit can run on no device.
  Environment(const Problem& problem, const Objective& objective, std::uint64_t seed);

  const Problem& problem() const { return problem_; }
  const Objective& objective() const { return objective_; }
  std::size_t num_bundles() const { return graph_.units; }
  const UnitGraph& graph() const { return graph_; }
  std::size_t bundle(OpId v) const { return bundle_of_[v]; }
  std::span<const OpId> members(std::size_t bundle) const {
    return {members_.data() + begin_[bundle], members_.data() + begin_[bundle + 1]};
  }
  const UnitNeeds& needs(std::size_t bundle) const { return needs_[bundle]; }
  /// Devices that can run all ops of the bundle, ascending.
  std::span<const DeviceId> able(std::size_t bundle) const { return able_[able_of_[bundle]]; }
  /// Whether devices are equal: in times, in links, in memory, and in what they can run.
  bool interchangeable() const { return interchangeable_; }
  /// The sum of the bundle's op times there, in ns.
  double time(std::size_t bundle, DeviceId d) const {
    return time_[bundle * problem_.cluster.num_devices() + index(d)];
  }
  /// The time of `t` between two devices, in ns; none where its bytes need not move.
  double transfer(TensorId t, DeviceId from, DeviceId to) const;
  /// The mean load of a device, in ns.
  double mean_load() const { return mean_load_; }

  /// The value of the best of the reference placements, in ns; twice the sum of all op times if
  /// none of them fits.
  double reference() const { return reference_; }
  std::string_view reference_placer() const { return reference_placer_; }
  /// The reference placement, by the first op of each bundle; empty if there is none.
  const BundleDevices& teacher() const { return teacher_; }
  /// Lets a search of so many evaluations look for a better teacher. Returns the evaluations that
  /// it took. The reference stays what it is.
  std::size_t teach(std::size_t evaluations, std::uint64_t seed);

  /// The placement in ops, with the order as priorities.
  Placement placement(const BundleDevices& devices) const;
  /// The score as one number, in ns: the value; where the placement does not fit, at least twice
  /// the reference, and the more the more bytes it lacks.
  double value(const Score& score) const;

 private:
  void merge_units(const ColocationUnits& units);
  void find_able();
  void find_neighbours();
  void ask_heuristics(std::uint64_t seed);

  Problem problem_;
  const Objective& objective_;
  IdVector<OpId, std::uint32_t> bundle_of_;
  std::vector<OpId> members_;
  std::vector<std::size_t> begin_;
  std::vector<UnitNeeds> needs_;
  std::vector<std::vector<DeviceId>> able_;  // the distinct ones
  std::vector<std::uint32_t> able_of_;
  std::vector<double> time_;      // [bundles, devices]
  std::vector<double> transfer_;  // [tensors], or empty: links differ
  std::vector<OpId> order_;
  IdVector<OpId, std::int32_t> priority_;
  UnitGraph graph_;
  bool interchangeable_ = false;
  double mean_load_ = 1.0, lower_bound_ = 1.0, reference_ = 1.0;
  std::string_view reference_placer_;
  BundleDevices teacher_;
};

}  // namespace baechi::learned
