/// One move after the other: each bundle of a whole placement is visited once and may go elsewhere,
/// and each move is paid by what it saves.
#pragma once
#include <array>
#include <atomic>
#include <span>
#include <string_view>
#include <vector>

#include "placers/learned/found.h"
#include "placers/learned/partial_schedule.h"
#include "placers/learned/training.h"

namespace baechi::learned {

/// What the network is told of each unit beside unit_feature_names, of the placement as it is:
/// visited already; when its first op starts, by PartialSchedule, over the end; its device's load;
/// the shares of its inputs and of its readers on its device.
inline constexpr auto move_unit_features = std::to_array<std::string_view>(
    {"visited", "start", "load_here", "parents_here", "children_here"});
/// And of each device that the visited unit may go to.
inline constexpr auto move_device_features = std::to_array<std::string_view>(
    {"here", "load_gap", "parents_there", "children_there", "free_memory", "speed", "empty"});

/// Walks through the bundles of one environment in topological order of their first ops. For one
/// thread.
class MovingEpisode {
 public:
  /// Messages pass again before each `refresh`-th bundle (1: as published). `environment` outlives
  /// this.
  MovingEpisode(const Environment& environment, std::size_t refresh);

  const Network& network() const { return choices_.network(); }
  void begin(const BundleDevices& start);
  bool done() const { return choices_.size() == environment_.num_bundles(); }
  /// Draws a device for the next bundle. Whether it is another than before.
  bool move(std::span<const double> weights, Random& random);
  const BundleDevices& devices() const { return at_; }
  std::size_t moves() const { return choices_.size(); }

  /// The mean over the moves of advantage * -log(chance) - entropy * (entropy of the chances), were
  /// the weights these. `advantages` [moves].
  double loss(std::span<const double> weights, std::span<const double> advantages, double entropy);
  /// Adds the gradient of loss().
  void gradient(std::span<const double> weights, std::span<const double> advantages, double entropy,
                std::span<double> gradient);

 private:
  void find_able(std::size_t bundle);
  void add_unit_features();
  void find_device_features(std::size_t bundle);
  double share_on(std::span<const std::uint32_t> neighbours, DeviceId d) const;
  /// Calls `visit(bundle)` in the order of the moves, with embedding_ as it was.
  void replay(std::span<const double> weights, const auto& visit);

  const Environment& environment_;
  std::size_t refresh_;
  IdVector<DeviceId, Bytes> limit_;
  BundleDevices at_;
  IdVector<DeviceId, double> load_;
  IdVector<DeviceId, Bytes> weights_;
  UnitGraph graph_;  // neighbours, and the features since the last refresh
  Embedding embedding_;
  PartialSchedule schedule_;
  std::vector<double> refreshed_;  // [refreshes, bundles, features]: graph_.features of each
  Choices choices_;                // choice i is of bundle i
  std::vector<DeviceId> able_;     // where the next bundle may go, and
  std::vector<double> features_;   // what is known of each
};

/// Trains it from random weights. An episode begins with the best heuristic's placement, or,
/// without `settings.imitate`, with each bundle on the first device that can run it. Each move to
/// another device is simulated, which counts as an evaluation; what it saves, over the reference,
/// is its reward. Advantages: the sum of rewards from a move on, less its mean over the last ten
/// episodes, over the root of their mean square. `stop`: as Watcher::stop, or null. Source: Placeto
/// (Addanki et al., NeurIPS 2019), with its Adam rate 1e-3 to 1e-4 and longest gradient 1.25.
/// Differs: our network and features, which hold for any number of devices; bundles are our units.
Found learn_moves(const Environment& environment, const TrainingSettings& settings,
                  std::size_t refresh, const std::atomic<bool>* stop);

}  // namespace baechi::learned
