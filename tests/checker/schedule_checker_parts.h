/// The parts of the schedule checker; see schedule_checker.h.
#pragma once
#include <fmt/format.h>

#include "tests/checker/schedule_checker.h"

namespace baechi::testing {

/// A point of simulated time, finer than a TimePoint: work of no length that starts in one round of
/// an instant ends in the next. In a round first all ends happen, then all starts.
struct Stamp {
  TimePoint time{};
  std::uint32_t round = 0;
  friend auto operator<=>(const Stamp&, const Stamp&) = default;
};
inline constexpr Stamp never{TimePoint::max(), 0};
inline constexpr std::size_t no_work = ~std::size_t{0};

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

/// What is to be checked, and which work is which. Work is named by its position in run.work.
struct Matched {
  const Problem& problem;
  const Placement& placement;
  const RecordedRun& run;
  IdVector<OpId, std::size_t> op_work{};  ///< or no_work
  IdVector<EdgeId, std::size_t>
      edge_work{};  ///< of edges between devices: the transfer it waits for

  DeviceId device_of(OpId v) const { return placement.device[v]; }
  bool remote(EdgeId e) const {  ///< has to cross between devices
    const Edge& edge = problem.graph.edge(e);
    return device_of(edge.src) != device_of(edge.dst) && !problem.graph.instant(edge.tensor);
  }
  Bytes held(TensorId t) const {  ///< bytes that `t` takes in memory where it is produced
    const Tensor& tensor = problem.graph.tensor(t);
    return tensor.control || tensor.reference ? Bytes{} : tensor.size;
  }
  Bytes copied(TensorId t) const {  ///< and where it is received
    const Tensor& tensor = problem.graph.tensor(t);
    return tensor.control ? Bytes{} : tensor.size;
  }
};

/// When, to the round, everything happened; `never` if it did not.
struct Order {
  std::vector<Stamp> started, ended;  // beside run.work
  std::optional<Work> refused;        // what was to start when memory ran out
};

std::string text(TimePoint t);
std::string text(const Work& w);

/// Walks through the instants of the run: at each, the one thing that must start next is what was
/// told next.
Order check_order(const Matched& m, Faults& faults);

void check_memory(const Matched& m, const Order& order, Faults& faults);

}  // namespace baechi::testing
