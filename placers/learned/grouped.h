/// First groups, then devices: a linear grouper puts each bundle into a group, a network places the
/// groups, and one reward trains both.
#pragma once
#include <array>
#include <atomic>
#include <span>
#include <string_view>
#include <vector>

#include "placers/learned/found.h"
#include "placers/learned/training.h"

namespace baechi::learned {

/// What the network is told of each device that a group may go to.
inline constexpr auto group_device_features = std::to_array<std::string_view>(
    {"load_gap", "traffic_there", "free_memory", "speed", "empty", "placed"});

/// Draws a grouping and devices for the groups of one environment. For one thread.
///
/// The grouper's score of a group is linear in a bundle's unit features. The network sees groups as
/// units: their bundles' features averaged, and two groups are neighbours if a tensor joins them.
/// Groups are placed in the order of their first bundles, each on a device that can run all of its
/// bundles and has room by MemoryFloor's count, if there is any; a bundle that cannot run where its
/// group goes is placed on the first device that can run it.
class GroupedEpisode {
 public:
  explicit GroupedEpisode(const Environment& environment);  ///< outlives this

  std::size_t groups() const { return groups_; }  ///< 20 for each device, at most 256 and bundles
  std::size_t num_weights() const { return grouper_ + choices_.network().num_weights(); }
  std::vector<double> initial(std::uint64_t seed) const;

  /// Valid until the next call.
  const BundleDevices& act(std::span<const double> weights, Random& random);
  /// The mean of -log(chance) over the choices of act(), groups and devices apart, were the weights
  /// these.
  double surprise(std::span<const double> weights);
  /// Adds the gradient of advantage * surprise() - entropy * (the mean entropies) at the weights of
  /// the last act() or surprise().
  void gradient(std::span<const double> weights, double advantage, double entropy,
                std::span<double> gradient);

 private:
  std::size_t unit_width() const { return unit_feature_names.size(); }
  void draw_groups(std::span<const double> weights, Random* random);
  void describe_groups();
  void place_groups(std::span<const double> weights, Random* random);
  /// Where `bundle` runs if its group goes to `wanted`.
  DeviceId device_of(std::size_t bundle, DeviceId wanted) const;
  void find_able(std::size_t group);
  void find_device_features(std::size_t group);

  const Environment& environment_;
  std::size_t devices_, groups_, grouper_;
  struct Traffic {
    std::uint32_t from = 0, to = 0;  // bundles
    double bytes = 0.0;
  };
  std::vector<Traffic> traffic_;
  IdVector<DeviceId, Bytes> limit_;
  // What the last pass chose:
  std::vector<std::uint32_t> group_of_;              // [bundles]
  std::vector<double> group_chances_;                // [bundles, groups]
  std::vector<std::vector<std::uint32_t>> members_;  // [groups]
  std::vector<UnitNeeds> needs_;                     // [groups]
  std::vector<double> between_;                      // [groups, groups] bytes
  UnitGraph graph_;
  Embedding embedding_;
  Choices choices_;
  std::vector<DeviceId> group_device_;  // of the groups that are placed
  std::vector<bool> placed_;
  IdVector<DeviceId, UnitNeeds> used_;
  IdVector<DeviceId, double> load_;
  BundleDevices result_;
  // For the group that is placed: where it may go, and what is known of each of these devices.
  std::vector<DeviceId> able_, roomy_;
  std::vector<double> features_, time_;
  std::vector<std::size_t> runs_;     // [devices] how many of its members run there
  IdVector<DeviceId, double> there_;  // its bytes from and to each
};

/// Trains it as Training does, from random weights. `stop`: as Watcher::stop, or null.
/// Source: ColocRL (Mirhoseini et al., ICML 2017), HierarchicalRL (ICLR 2018): groups, then
/// devices. Differs: neither LSTMs nor attention; the grouper is linear, the placer our network.
Found learn_groups(const Environment& environment, const TrainingSettings& settings,
                   const std::atomic<bool>* stop);

}  // namespace baechi::learned
