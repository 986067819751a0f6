/// A step driven task by task by the host, which sees the ends of tasks. Memory is taken from
/// budgeted pools when a task starts and given back after its last reader.
#pragma once
#include <memory>
#include <optional>
#include <vector>

#include "validate/cuda/memory_pool.h"
#include "validate/cuda/step.h"

namespace baechi::validate::replay {

/// The host notices an end, and starts the next task, some microseconds late. Use it for memory
/// verdicts, and for times only if ops are long.
class LiveRun {
 public:
  explicit LiveRun(Step& step);

  /// Fills in verdict, submission time and peaks, not the times. Waits for all that was started.
  void run(StepResult& result);

 private:
  std::optional<int> start(int task);
  void finish(int task);
  bool is_ready(int task) const;

  Step& step_;
  const ReplayPlan& plan_;
  std::vector<std::unique_ptr<MemoryPool>> pools_;    ///< [devices]
  std::vector<void*> memory_;                         ///< [buffers]
  std::vector<std::vector<std::size_t>> taken_by_;    ///< [tasks], buffers
  std::vector<std::vector<std::size_t>> readers_of_;  ///< [tasks], buffers that it ends a use of
  std::vector<std::size_t> readers_left_;             ///< [buffers]
  std::vector<Event> ends_;                           ///< [tasks]
  std::vector<bool> ended_;                           ///< [tasks]
};

}  // namespace baechi::validate::replay
