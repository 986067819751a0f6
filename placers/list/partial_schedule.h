/// The schedule so far: which ops have started on which device, what is booked for them, and the
/// current time.
#pragma once
#include <queue>

#include "placers/list/booked_memory.h"

namespace baechi::list {

inline constexpr TimePoint never = TimePoint::max();

/// Values of OpState::home that are not devices.
inline constexpr DeviceId any_device{~std::uint32_t{0}};
inline constexpr DeviceId started{~std::uint32_t{0} - 1};

struct OpState {
  std::uint32_t inputs_missing = 0;  ///< inputs not computed yet; 0: the op is ready
  std::uint32_t turn = 0;            ///< if `by_turn`: how many ops became ready before it
  DeviceId home = any_device;        ///< the only device allowed, or `any_device`, or `started`
};

struct DeviceState {
  OpId running = no_op;
  OpId last = no_op;    ///< the op that started last
  TimePoint free_at{};  ///< when that op ends
};

/// The order in which ops that could start now are preferred, the least first: by turn, then by id.
struct Rank {
  std::uint64_t turn_and_id;
  OpId op() const { return static_cast<OpId>(turn_and_id); }
  friend auto operator<=>(const Rank&, const Rank&) = default;
};
inline constexpr Rank no_rank{~std::uint64_t{0}};  ///< after all ops

/// State of a list schedule, written by the scheduler and read by Candidates and Favourites.
struct PartialSchedule {
  /// The parts of `p` must outlive this. `transfers_mode` replaces p.engine.transfers.
  PartialSchedule(const Problem& p, Transfers transfers_mode, MemoryMargin margin,
                  bool rank_by_turn)
      : graph(p.graph),
        cluster(p.cluster),
        costs(p.costs),
        transfers(p, transfers_mode),
        memory(p, transfers, margin),
        by_turn(rank_by_turn),
        uniform_compute(std::ranges::all_of(
            p.cluster.devices(), [&](DeviceId d) { return p.costs.same_compute(DeviceId{0}, d); })),
        uniform(uniform_compute && transfers.uniform_links() && memory.ample()),
        ops(p.graph.num_ops()),
        devices(p.cluster.num_devices()) {}
  PartialSchedule(const PartialSchedule&) = delete;
  PartialSchedule& operator=(const PartialSchedule&) = delete;

  const OpGraph& graph;
  const Cluster& cluster;
  const CostModel& costs;
  BookedTransfers transfers;
  BookedMemory memory;
  const bool by_turn;          ///< ops are preferred in the order in which they became ready
  const bool uniform_compute;  ///< every op takes the same time on all devices
  /// Devices differ only in the inputs they hold: equal op times and links, and memory for all ops
  /// on each.
  const bool uniform;
  IdVector<OpId, OpState> ops;
  IdVector<DeviceId, DeviceState> devices;
  std::size_t num_started = 0;  ///< ops that run or have ended
  std::size_t num_running = 0;  ///< ops that run
  TimePoint now{};

  Rank rank(OpId v) const {
    return {std::uint64_t{ops[v].turn} << 32 | static_cast<std::uint64_t>(index(v))};
  }
  /// The position of `v` in the order of ranks, from 0.
  std::size_t place(OpId v) const { return by_turn ? ops[v].turn : index(v); }
  bool is_ready(OpId v) const { return ops[v].inputs_missing == 0; }
  bool may_go(OpId v, DeviceId d) const { return ops[v].home == any_device || ops[v].home == d; }
  bool idle(DeviceId d) const { return devices[d].running == no_op; }
  /// When the ready op `v` could start on `d`, memory ignored.
  TimePoint start_at(OpId v, DeviceId d) {
    return std::max({transfers.earliest(v, d), devices[d].free_at, now});
  }
};

/// A device waits if the favourite child of its last op is ready, fits there, and could start on no
/// other device earlier. It waits until the child's inputs have arrived, unless an op is urgent:
/// one that could start by now on every device on which it fits.
/// Source: Baechi (SoCC'20), section 2.2.3; Hanen and Munier 1995.
class Favourites {
 public:
  /// `favourite` has the favourite child of each op, or no_op; empty: no device ever waits (m-ETF).
  /// Both arguments outlive this.
  Favourites(PartialSchedule& schedule, const IdVector<OpId, OpId>& favourite);

  /// The favourite child of `v`, or no_op.
  OpId of(OpId v) const { return favourite_.empty() ? no_op : favourite_[v]; }

  void ready(OpId v) {
    if (favourite_.empty()) return;
    place_[v] = ready_.size();
    ready_.push_back(v);
  }
  void started(OpId v) {
    if (favourite_.empty()) return;
    place_[ready_.back()] = place_[v];
    ready_[place_[v]] = ready_.back();
    ready_.pop_back();
  }

  /// The favourite child that the idle device `d` waits for, or no_op if it does not wait.
  OpId awaited(DeviceId d);

  struct Decision {
    Rank op = no_rank;           ///< what to start, if anything
    TimePoint retry_at = never;  ///< otherwise when to decide again
  };
  /// The decision of `d`, which waits for `child`: the most urgent op, by (urgent time, rank), if
  /// one is urgent; otherwise the child, if its inputs have arrived.
  Decision decide(DeviceId d, OpId child);

 private:
  bool earlier_on_another(OpId child, DeviceId d);
  /// The earliest time from which `v` can start on every device on which it fits, including `d`.
  /// May return any later time if (time, rank of `v`) >= `bound`.
  TimePoint urgent_at(OpId v, DeviceId d, std::pair<TimePoint, Rank> bound);

  PartialSchedule& schedule_;
  const IdVector<OpId, OpId>& favourite_;
  std::vector<OpId> ready_;                // not started, in any order
  IdVector<OpId, std::size_t> place_;      // position of each op in ready_
  std::vector<DeviceId> last_free_first_;  // all devices, in the order of the last decide()
};

struct Choice {
  OpId op{};
  DeviceId device{};
};

/// An op that was started and whose transfers are booked.
struct Start {
  OpId op{};
  DeviceId device{};
  bool places_group = false;  ///< it is the first of its group, which is now placed on `device`
  std::span<const TensorId> copied;  ///< inputs sent to `device` whose copies other ops may use
};

/// Candidates are the ops that some idle device could start now, given inputs and memory. best() is
/// the one of least rank, on the device where it ends first; ties: the device of least id. What a
/// device that waits for a favourite child starts is decided by Favourites. Ids break all ties, so
/// the order within heaps and lists does not matter.
class Candidates {
 public:
  virtual ~Candidates() = default;

  /// Adds `v`, all of whose inputs are computed.
  virtual void ready(OpId v) = 0;
  /// Nothing if no idle device can start any op now.
  virtual std::optional<Choice> best() = 0;
  /// After best() has returned nothing: the next time, ends of ops aside, at which it may return a
  /// choice. Never later than the first such time; `never` if there is none.
  virtual TimePoint retry_at() const = 0;
  virtual void started(const Start& start) = 0;
  /// `v` has ended on `d`, and its inputs or outputs may have been freed.
  virtual void ended(OpId v, DeviceId d) = 0;
};

/// Tests each idle device separately: for any devices, links and memory. The arguments must outlive
/// the result, here and below.
std::unique_ptr<Candidates> each_device(PartialSchedule& schedule, Favourites& favourites);

/// Tests all devices that hold none of an op's inputs at once. Requires schedule.uniform. The
/// choices are those of each_device(): 22,000 layered ops on 64 devices take 1.3 times as long as
/// on 4 devices, with each_device() 4.7 times as long.
std::unique_ptr<Candidates> uniform_devices(PartialSchedule& schedule, Favourites& favourites);

/// A ready op as seen by one device. `at` is a lower bound on its start: channels may fill up.
struct Candidate {
  TimePoint at{};
  OpId op{};
  friend auto operator<=>(const Candidate&, const Candidate&) = default;
};

/// A heap with the least element on top.
template <class T>
using MinHeap = std::priority_queue<T, std::vector<T>, std::greater<>>;

}  // namespace baechi::list
