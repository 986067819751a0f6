/// The schedule so far: which ops have started on which device, what is booked for them, and the
/// current time.
#pragma once
#include <algorithm>
#include <cstdint>

#include "placers/list/booked_memory.h"
#include "placers/list/booked_transfers.h"
#include "sim/problem/problem.h"

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

}  // namespace baechi::list
