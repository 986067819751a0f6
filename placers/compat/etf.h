/// The original's m_etf and m_sct, one scheduler: baechi_place() makes it.
#pragma once
#include "placers/compat/compat.h"
#include "placers/compat/memory.h"

namespace baechi {

/// Ops that may start, and for each how early it could on each device. Rows are ops in no order,
/// for every choice among them is decided by Op::topo at the latest.
class CompatReadyOps {
 public:
  static constexpr TimePoint never = TimePoint::max();

  explicit CompatReadyOps(std::size_t devices) : devices_(devices) {}

  std::size_t size() const { return ops_.size(); }
  OpId op(std::size_t row) const { return ops_[row]; }
  /// Earliest start, or never: the original has no entry.
  TimePoint& time(std::size_t row, DeviceId d) { return times_[row * devices_ + index(d)]; }
  TimePoint time(std::size_t row, DeviceId d) const { return times_[row * devices_ + index(d)]; }
  /// The latest of the times, taken before groups are looked at; never if there is none.
  TimePoint& urgent(std::size_t row) { return urgent_[row]; }
  TimePoint urgent(std::size_t row) const { return urgent_[row]; }

  /// Estimated arrival of the last input, remembered until a channel moves that it depends on.
  struct Estimate {
    TimePoint ready{};
    std::uint64_t channels = ~std::uint64_t{0};  ///< bit d % 64 for each device; all: not known yet
  };
  Estimate& estimate(std::size_t row, DeviceId d) { return estimates_[row * devices_ + index(d)]; }

  void add(OpId v);
  void remove(std::size_t row);

 private:
  std::size_t devices_;
  std::vector<OpId> ops_;            // [size]
  std::vector<TimePoint> times_;     // [size, devices]
  std::vector<TimePoint> urgent_;    // [size]
  std::vector<Estimate> estimates_;  // [size, devices]
};

class CompatScheduler {
 public:
  CompatScheduler(const BaechiGraph& graph, const IdVector<DeviceId, Bytes>& limits,
                  const CompatOptions& options, std::span<const std::uint32_t> favourites,
                  BaechiLog* log);
  CompatResult run() &&;

 private:
  /// An op that a device would start. Q3: its time may be `never`, if the device is awake.
  struct Candidate {
    std::size_t row;
    DeviceId device;
    TimePoint time;
    std::uint32_t topo;
  };

  void step();
  void count_finished(DeviceId d);
  void update_times();
  void update_row(std::size_t row);
  void drop_devices_without_room_for_group(std::size_t row);
  CompatReadyOps::Estimate estimate(OpId v, DeviceId d) const;

  std::optional<Candidate> choose() const;
  std::optional<std::size_t> candidate(DeviceId d) const;
  std::optional<std::size_t> earliest(DeviceId d) const;
  std::optional<std::size_t> most_urgent(DeviceId d) const;
  std::optional<std::size_t> waits_for(DeviceId d) const;
  TimePoint next_time(DeviceId d) const;

  void start(const Candidate& c);
  TimePoint book_inputs(OpId v, DeviceId d);
  void book_edge(EdgeId e, DeviceId d);
  void place_with_group(OpId v, DeviceId d);
  void place(OpId v, DeviceId d);

  /// The transfer of `t` to `d`, if there was one: a tensor, once there, is never dropped.
  std::optional<BaechiBooking>& sent(TensorId t, DeviceId d) {
    return sent_[index(t) * limits_.size() + index(d)];
  }
  const std::optional<BaechiBooking>& sent(TensorId t, DeviceId d) const {
    return sent_[index(t) * limits_.size() + index(d)];
  }
  auto devices() const { return id_range<DeviceId>(0, limits_.size()); }
  bool may_run_on(OpId v, DeviceId d) const {
    return result_.device[v] == no_device || result_.device[v] == d;
  }

  const BaechiGraph& graph_;
  const IdVector<DeviceId, Bytes>& limits_;
  const CompatOptions& options_;
  std::span<const std::uint32_t> favourites_;  // [num_ops], or empty for m_etf
  BaechiLog* log_;

  IdVector<GroupId, CompatGroup> groups_;  // empty without colocation
  CompatMemory memory_;
  BaechiChannels channels_;
  std::vector<std::optional<BaechiBooking>> sent_;  // [num_tensors, num_devices]
  std::uint64_t moved_channels_ = 0;  // since estimates were last looked at; bit d % 64
  CompatReadyOps ready_;
  IdVector<OpId, std::uint32_t> ready_row_;  // row in ready_, or ~0
  IdVector<OpId, std::uint32_t> unmet_;      // in-edges whose src has not finished
  IdVector<OpId, std::uint32_t> unread_;     // out-edges whose dst has not started
  IdVector<OpId, TimePoint> end_;
  IdVector<DeviceId, TimePoint> free_;  // for computing
  IdVector<DeviceId, OpId> last_;       // last started
  TimePoint now_{};
  CompatResult result_;
};

}  // namespace baechi
