/// The inner types and checks of the schedule checker (schedule_checker.h).
#pragma once
#include <fmt/format.h>

#include "tests/checker/schedule_checker.h"

namespace baechi::testing {

/// A point of simulated time, finer than a TimePoint: an instant and a round of that instant. Work
/// of zero length starts in one round and ends in the next. In a round all ends happen before all
/// starts.
struct Stamp {
  TimePoint time{};
  std::uint32_t round = 0;
  friend auto operator<=>(const Stamp&, const Stamp&) = default;
};
inline constexpr Stamp never{TimePoint::max(), 0};
inline constexpr std::size_t no_work = ~std::size_t{0};

/// The list of faults found, as text.
class Faults {
 public:
  template <class... Args>
  void add(fmt::format_string<Args...> format, Args&&... args) {
    list_.push_back(fmt::format(format, std::forward<Args>(args)...));
  }
  bool empty() const { return list_.empty(); }
  const std::vector<std::string>& list() const { return list_; }

 private:
  std::vector<std::string> list_;
};

/// The run to check, with the work of each op and edge. Work is named by its position in run.work.
struct Matched {
  const Problem& problem;
  const Placement& placement;
  const RecordedRun& run;
  IdVector<OpId, std::size_t> op_work{};      ///< the op's work, or no_work
  IdVector<EdgeId, std::size_t> edge_work{};  ///< of remote edges: the transfer

  DeviceId device_of(OpId v) const { return placement.device[v]; }
  bool member(OpId v) const { return problem.graph.collective_of(v) != no_collective; }
  /// The undisturbed time of `v`; for a member, its collective's.
  Duration time_of(OpId v) const {
    if (!member(v)) return problem.costs.compute(v, device_of(v));
    const Collective& c = problem.graph.collectives()[problem.graph.collective_of(v)];
    std::vector<DeviceId> devices;
    for (const OpId w : c.member_ids()) devices.push_back(device_of(w));
    return problem.costs.collective(c, devices);
  }
  bool remote(EdgeId e) const {  ///< whether a transfer is needed
    const Edge& edge = problem.graph.edge(e);
    return device_of(edge.src) != device_of(edge.dst) && !problem.graph.instant(edge.tensor);
  }
  Bytes held(TensorId t) const {  ///< bytes on the producer's device
    const Tensor& tensor = problem.graph.tensor(t);
    return tensor.control || tensor.reference ? Bytes{} : tensor.size;
  }
  Bytes copied(TensorId t) const {  ///< bytes on a receiving device
    const Tensor& tensor = problem.graph.tensor(t);
    return tensor.control ? Bytes{} : tensor.size;
  }
};

/// When, to the round, each piece of work started and ended; `never` if it did not.
struct Order {
  std::vector<Stamp> started, ended;  // [run.work]
  std::optional<Work> refused;        // the work that could not start when memory ran out
};

std::string text(TimePoint t);
std::string text(const Work& w);

/// Iterates over the instants of the run and checks that starts are reported in the order in which
/// work must start.
Order check_order(const Matched& m, Faults& faults);

/// Checks the memory of all devices at every instant (item 4 of faults()).
void check_memory(const Matched& m, const Order& order, Faults& faults);

}  // namespace baechi::testing
