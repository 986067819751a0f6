/// The partial schedule of a policy that places ops in list order, and what it says of each device.
#pragma once
#include <array>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

#include "placers/interface/memory_floor.h"
#include "placers/learned/environment.h"
#include "placers/list/booked_transfers.h"

namespace baechi::learned {

/// What the network is told of each device that a bundle may go to. Gaps are times above those of
/// the best of these devices, through tanh(gap / (5 % of the mean load + the bundle's time)).
inline constexpr auto device_feature_names = std::to_array<std::string_view>(
    {"start_gap", "finish_gap", "earliest_finish", "load_gap", "input_bytes_there", "parents_there",
     "free_memory", "speed", "empty", "largest_input_there", "placed", "behind", "busy", "channel",
     "sent", "readers_parents_there", "waiting"});

/// Ops are put in the order in which their last inputs are produced, ties by id: the engine's, as
/// far as it can be known before they are placed. Each runs behind what its device was given
/// before; the transfers of its inputs are booked when it is put.
class PartialSchedule {
 public:
  static constexpr DeviceId nowhere = list::BookedTransfers::nowhere;

  explicit PartialSchedule(const Environment& environment);  ///< outlives this

  void clear();
  /// The op to put next; nothing if all are put.
  std::optional<OpId> next();
  /// The devices that `bundle` fits on, by the floor of what they hold; all able ones if it fits on
  /// none; and `also`, if it is a device. Where devices are interchangeable, empty ones count as
  /// one, the first. Valid until the next call.
  std::span<const DeviceId> choices(std::size_t bundle, DeviceId also = nowhere);
  bool empty(DeviceId d) const { return count_[d] == 0; }
  /// [devices, device_feature_names] of a bundle whose first op to be put is `first`; valid until
  /// the next call.
  std::span<const double> features(std::size_t bundle, OpId first,
                                   std::span<const DeviceId> devices);
  void assign(std::size_t bundle, DeviceId d);  ///< the bundle's memory and load
  void put(OpId v, DeviceId d);                 ///< runs it
  /// When `v`, which is put, ends; and the last of all.
  TimePoint end(OpId v) const { return transfers_.end(v); }
  TimePoint end() const { return last_; }

 private:
  struct Ready {
    TimePoint at{};
    OpId op{};
    friend auto operator<=>(const Ready&, const Ready&) = default;
  };
  /// What the inputs of an op are in all.
  struct Inputs {
    double bytes = 0.0, parents = 0.0;
    DeviceId largest_on = nowhere;
  };
  /// A bundle on a device: when it would run, in ns, and what it would find there.
  struct Outlook {
    double time = 0.0, load = 0.0, start = 0.0, finish = 0.0;
    double sending = 0.0;                           // times of the transfers that it would wait for
    double bytes_there = 0.0, parents_there = 0.0;  // shares of its inputs
  };
  void count_readers_parents(OpId first);
  double bytes_of(TensorId t) const;
  Inputs inputs_of(OpId v) const;
  Outlook outlook(std::size_t bundle, OpId first, DeviceId d, const Inputs& inputs);

  const Environment* environment_;
  const Problem* problem_;
  std::size_t devices_;
  list::BookedTransfers transfers_;
  IdVector<OpId, std::uint32_t> missing_;  // inputs whose ops are not put yet
  std::vector<Ready> ready_;               // a heap, the earliest first
  IdVector<DeviceId, TimePoint> free_at_;
  IdVector<DeviceId, double> load_;
  IdVector<DeviceId, std::uint32_t> count_;  // bundles on each device
  std::size_t placed_ = 0;
  TimePoint now_{}, last_{};
  MemoryFloor memory_;
  std::vector<DeviceId> choices_;
  std::vector<Outlook> outlooks_;
  std::vector<double> features_, nearby_;
};

}  // namespace baechi::learned
