/// What each device of a plan under construction may start, and when it is to be asked.
#pragma once
#include <cstdint>
#include <functional>
#include <queue>
#include <vector>

#include "sim/graph/op_graph.h"
#include "sim/ids.h"
#include "sim/units.h"

namespace baechi::list_queues {

inline constexpr TimePoint never = TimePoint::max();
inline constexpr DeviceId anywhere{~std::uint32_t{0}};
inline constexpr DeviceId started{~std::uint32_t{0} - 1};

/// Of one op.
struct OpState {
  std::uint32_t unmet = 0;   // inputs not computed
  std::uint32_t turn = 0;    // PyTorch variant: how many ops became ready before it
  DeviceId home = anywhere;  // where it may go: `anywhere`, where its group is, or `started`
};

/// Which of the ops that could start now does: the least, by turn, then id.
struct Ranked {
  std::uint64_t turn_and_id;
  OpId op() const { return static_cast<OpId>(turn_and_id); }
  friend auto operator<=>(const Ranked&, const Ranked&) = default;
};
inline constexpr Ranked nothing{~std::uint64_t{0}};

/// A ready op as a device sees it; `at` may be too early, since channels fill up.
struct Candidate {
  TimePoint at{};
  OpId op{};
  friend auto operator<=>(const Candidate&, const Candidate&) = default;
};

/// A ready op without room.
struct Blocked {
  Bytes need{};
  OpId op{};
  friend auto operator<=>(const Blocked&, const Blocked&) = default;
};

/// The least is on top.
template <class T>
using MinHeap = std::priority_queue<T, std::vector<T>, std::greater<>>;

/// Of one device. An op may be in several, and more than once; what has started is skipped.
struct DeviceQueues {
  OpId running = no_op;
  OpId last = no_op;
  bool waits = false;      // idle, for the favourite of `last`
  OpId asked_for = no_op;  // the last ready op of which it has an input
  TimePoint free_at{};
  std::size_t asked = 0;       // how many of asked_of_all_ it has seen
  MinHeap<Ranked> soon{};      // ready ops that may be able to start by now
  MinHeap<Candidate> later{};  // that cannot before
  MinHeap<Blocked> blocked{};  // without room, least need first
};

}  // namespace baechi::list_queues
