/// CPU time of a task, summed over all threads that work on it; progress of long computations.
#pragma once
#include <atomic>
#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

namespace baechi {

/// CPU time that the calling thread has used since it began.
std::chrono::nanoseconds thread_time();

/// Adds up the CPU time of one task; other processes are not included.
class ProcessorTime {
 public:
  /// `clock`: how much time the calling thread has used.
  explicit ProcessorTime(std::chrono::nanoseconds (*clock)() = thread_time) : clock_(clock) {}
  /// The time of all ended parts.
  std::chrono::nanoseconds used() const { return std::chrono::nanoseconds(used_.load()); }

 private:
  friend class TaskPart;
  std::chrono::nanoseconds (*clock_)();
  std::atomic<std::int64_t> used_{0};
};

/// During its lifetime the calling thread's time is added to `task`; null: to none. Parts of a task
/// may run on any thread and nest. A nested part of another task pauses the outer part.
class TaskPart {
 public:
  explicit TaskPart(ProcessorTime* task);
  ~TaskPart();
  TaskPart(const TaskPart&) = delete;
  TaskPart& operator=(const TaskPart&) = delete;

  /// The task that the calling thread works on; null: none.
  static ProcessorTime* task_here();

 private:
  void begin() {
    if (task_ != nullptr) begun_ = task_->clock_();
  }
  void end() {
    if (task_ != nullptr) task_->used_ += (task_->clock_() - begun_).count();
  }

  ProcessorTime* task_;
  TaskPart* outer_;
  bool within_;  // nested in a part of the same task: the clock, which takes microseconds, is not
                 // read
  std::chrono::nanoseconds begun_{};
};

/// Wraps `work` so that its time on any thread is added to the caller's task.
template <class Work>
auto part_of_this_task(Work work) {
  return [task = TaskPart::task_here(), work = std::move(work)](const auto&... arguments) {
    const TaskPart part(task);
    return work(arguments...);
  };
}

/// Called before work begins with the number of work items and the counter of those done. The
/// returned object lives until the work has ended.
using Watch =
    std::function<std::shared_ptr<void>(const std::atomic<std::size_t>& done, std::size_t total)>;

/// The result of `watch`; null if there is none.
inline std::shared_ptr<void> begin_watch(const Watch& watch, const std::atomic<std::size_t>& done,
                                         std::size_t total) {
  return watch ? watch(done, total) : nullptr;
}

}  // namespace baechi
