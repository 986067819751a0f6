/// The ready ops and the idle devices of a list schedule: which (op, device) is the best to start.
#pragma once
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <span>
#include <vector>

#include "placers/list/favourites.h"
#include "placers/list/partial_schedule.h"

namespace baechi::list {

struct Choice {
  OpId op{};
  DeviceId device{};
};

/// An op that was started, its transfers booked.
struct Start {
  OpId op{};
  DeviceId device{};
  bool places_group = false;         ///< it is the first of its group, which is on `device` now
  std::span<const TensorId> copied;  ///< the inputs sent to `device` whose copies others may use
};

/// Candidates are the ops that some idle device could start now, inputs and memory included. best()
/// is the one of least rank, on the device where it ends first; ties: the device of least id. A
/// device that waits for a favourite child starts what Favourites says. Ids break all ties, so the
/// order within heaps and lists decides nothing.
class Candidates {
 public:
  virtual ~Candidates() = default;

  /// All inputs of `v` are computed.
  virtual void ready(OpId v) = 0;
  /// Nothing if no idle device can start any op now.
  virtual std::optional<Choice> best() = 0;
  /// After best() has found nothing: the next instant, ends of ops aside, at which it may find
  /// something. Never later than the first such instant; `never` if there is none.
  virtual TimePoint ask_at() const = 0;
  virtual void started(const Start& start) = 0;
  /// `v` has ended on `d`, and what it read or wrote may have been freed.
  virtual void ended(OpId v, DeviceId d) = 0;
};

/// Asks each idle device what it could start: for any devices, links and memory. The argument
/// outlives the result, here and below.
std::unique_ptr<Candidates> each_device(PartialSchedule& schedule, Favourites& favourites);

/// Asks once for all devices that hold none of an op's inputs. Needs schedule.uniform. The
/// choices are those of each_device(): 22,000 layered ops on 64 devices take 1.3 times as long as
/// on 4 devices, asked one by one 4.7 times as long.
std::unique_ptr<Candidates> uniform_devices(PartialSchedule& schedule, Favourites& favourites);

/// A ready op as a device sees it. `at` is the earliest start; it may be too early, since channels
/// fill up.
struct Candidate {
  TimePoint at{};
  OpId op{};
  friend auto operator<=>(const Candidate&, const Candidate&) = default;
};

/// The least is on top.
template <class T>
using MinHeap = std::priority_queue<T, std::vector<T>, std::greater<>>;

}  // namespace baechi::list
