/// The partial schedule of a policy that places ops in list order, and what it says of each device.
#pragma once
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "placers/learned/environment.h"
#include "placers/memory_floor.h"

namespace baechi::learned {

/// What the network is told of each device that a block may go to. Gaps are times above those of
/// the best of these devices, through tanh(gap / (5 % of the mean load + the block's time)).
inline constexpr auto device_feature_names = std::to_array<std::string_view>(
    {"start_gap", "finish_gap", "earliest_finish", "load_gap", "input_bytes_there", "parents_there",
     "free_memory", "speed", "empty", "largest_input_there", "placed"});

/// Ops run in the order in which they are put, behind what their device has run; their inputs come
/// one after the other through their sender's channel and their device's, unless transfers are
/// parallel. Times are in ns.
class Plan {
 public:
  explicit Plan(const Environment& environment);  ///< outlives this

  void clear();
  /// The devices that `block` fits on, by the floor of what they hold; all able ones if it fits on
  /// none. Valid until the next call.
  std::span<const DeviceId> choices(std::size_t block);
  /// [devices, device_feature_names] of a block whose first op in the order is `first`; valid until
  /// the next call.
  std::span<const double> features(std::size_t block, OpId first,
                                   std::span<const DeviceId> devices);
  void assign(std::size_t block, DeviceId d);  ///< the block's memory and load
  void put(OpId v, DeviceId d);                ///< runs it

 private:
  double transfer(TensorId t, DeviceId from, DeviceId to) const;
  double& there(TensorId t, DeviceId d) { return there_[index(t) * devices_ + index(d)]; }
  Bytes needed(std::size_t block, DeviceId d) const;
  template <class Sent>
  double arrival(OpId v, DeviceId d, const Sent& sent);

  const Environment& environment_;
  const Problem& problem_;
  std::size_t devices_;
  bool limited_;                  // channels
  std::vector<double> transfer_;  // [tensors], or empty: links differ
  IdVector<OpId, DeviceId> device_;
  IdVector<OpId, double> end_;
  std::vector<double> there_;  // [tensors, devices]; < 0: not there
  std::vector<double> free_at_, out_free_, in_free_, load_;
  std::vector<std::uint32_t> count_;  // blocks on each device
  std::size_t placed_ = 0;
  IdVector<DeviceId, Bytes> limit_, weights_, working_;  // memory, as MemoryFloor counts it
  std::vector<DeviceId> choices_;
  std::vector<double> features_;
};

}  // namespace baechi::learned
