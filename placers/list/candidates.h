/// The ready ops and idle devices of a list schedule: selects the best (op, device) to start.
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
