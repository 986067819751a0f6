/// The original's m_etf and m_sct: the scheduler that its TensorFlow system and its PyTorch variant
/// have in common. place() makes one of the two.
#pragma once
#include <memory>

#include "placers/original/original.h"

namespace baechi::original {

/// Ops that may start, with the earliest start of each on each device. The order of the rows does
/// not matter: Scheduler::rank breaks all ties.
class ReadyOps {
 public:
  static constexpr TimePoint never = TimePoint::max();

  explicit ReadyOps(std::size_t devices) : devices_(devices) {}

  std::size_t size() const { return ops_.size(); }
  OpId op(std::size_t row) const { return ops_[row]; }
  /// Earliest start; never: the original has no entry.
  TimePoint& time(std::size_t row, DeviceId d) { return times_[row * devices_ + index(d)]; }
  TimePoint time(std::size_t row, DeviceId d) const { return times_[row * devices_ + index(d)]; }
  /// The latest of the times, taken before groups are checked; never if there is none.
  TimePoint& urgent(std::size_t row) { return urgent_[row]; }
  TimePoint urgent(std::size_t row) const { return urgent_[row]; }

  /// Estimated arrival of the last input, cached until a channel that it depends on moves.
  struct Estimate {
    TimePoint ready{};
    std::uint64_t channels =
        ~std::uint64_t{0};  ///< bit d % 64 for each device; all bits: not computed yet
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

class Scheduler {
 public:
  virtual ~Scheduler() = default;
  PlacerResult run();

 protected:
  Scheduler(const Graph& graph, const IdVector<DeviceId, Bytes>& limits,
            const PlacerOptions& options, std::span<const std::uint32_t> favourites, Log* log);

  // The differences between the two systems. All but fits() throw Stop where the original asserts.

  /// Whether `v` could start on `d` now.
  virtual bool fits(OpId v, DeviceId d) const = 0;
  /// When the inputs of `v` would arrive on `d`.
  virtual ReadyOps::Estimate estimate(OpId v, DeviceId d) const = 0;
  /// Removes a ready op's times on devices where its group does not fit.
  virtual void exclude_devices(std::size_t /*row*/) {}
  /// Places `v` on `d`, sends its inputs, books its memory; returns when the inputs arrive.
  virtual TimePoint commit(OpId v, DeviceId d, TimePoint estimated) = 0;
  /// Called once `v` has been started on `d` and counted.
  virtual void started(OpId /*v*/, DeviceId /*d*/) {}
  virtual const IdVector<DeviceId, Bytes>& used() const = 0;
  virtual const IdVector<DeviceId, Bytes>& peak() const = 0;

  auto devices() const { return id_range<DeviceId>(0, limits_.size()); }

  const Graph& graph_;
  const IdVector<DeviceId, Bytes>& limits_;
  const PlacerOptions& options_;
  Log* log_;
  ReadyOps ready_;
  IdVector<OpId, TimePoint> end_;
  std::uint64_t moved_channels_ = 0;  // since estimates were last checked; bit d % 64
  PlacerResult result_;

 private:
  /// An op that a device would start. Q3: its time may be `never`, if the device is awake.
  struct Candidate {
    std::size_t row;
    DeviceId device;
    TimePoint time;
    std::uint32_t rank;
  };

  void step();
  void make_ready(OpId v);
  void count_finished(DeviceId d);
  void update_times();
  void update_row(std::size_t row);

  /// Breaks ties between ops that could start at the same time: the least rank goes first.
  std::uint32_t rank(std::size_t row) const { return rank_[ready_.op(row)]; }
  std::optional<Candidate> choose() const;
  std::optional<std::size_t> candidate(DeviceId d) const;
  std::optional<std::size_t> earliest(DeviceId d) const;
  std::optional<std::size_t> most_urgent(DeviceId d) const;
  std::optional<std::size_t> waits_for(DeviceId d) const;
  TimePoint next_time(DeviceId d) const;
  void start(const Candidate& c);

  bool may_run_on(OpId v, DeviceId d) const {
    return result_.device[v] == no_device || result_.device[v] == d;
  }

  std::span<const std::uint32_t> favourites_;  // [num_ops], or empty for m_etf
  IdVector<OpId, std::uint32_t> rank_;
  std::uint32_t became_ready_ = 0;           // number of ops
  IdVector<OpId, std::uint32_t> ready_row_;  // row in ready_, or ~0
  IdVector<OpId, std::uint32_t> unmet_;      // in-edges whose src has not finished
  IdVector<DeviceId, TimePoint> free_;       // end of the last op
  IdVector<DeviceId, OpId> last_;            // op started last
  TimePoint now_{};
};

/// `favourites`: as of place(); empty for m_etf.
std::unique_ptr<Scheduler> tensorflow_scheduler(const Graph& graph,
                                                const IdVector<DeviceId, Bytes>& limits,
                                                const PlacerOptions& options,
                                                std::span<const std::uint32_t> favourites,
                                                Log* log);
std::unique_ptr<Scheduler> pytorch_scheduler(const Graph& graph,
                                             const IdVector<DeviceId, Bytes>& limits,
                                             const PlacerOptions& options,
                                             std::span<const std::uint32_t> favourites, Log* log);

}  // namespace baechi::original
