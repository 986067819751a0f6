/// The processor time that a task takes, summed over all threads that work on it.
#pragma once
#include <atomic>
#include <chrono>
#include <utility>

namespace baechi {

/// The processor time that the calling thread has used since it began.
std::chrono::nanoseconds thread_time();

/// Adds up the processor time of one task. Time of other processes is not counted.
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

/// While it lives, the calling thread's time counts for `task`; null: for none. Parts of a task may
/// run on any thread and within each other. A part of another task interrupts the outer part.
class TaskPart {
 public:
  explicit TaskPart(ProcessorTime* task);
  ~TaskPart();
  TaskPart(const TaskPart&) = delete;
  TaskPart& operator=(const TaskPart&) = delete;

  /// The task that the calling thread works on; null: none.
  static ProcessorTime* task_here();

 private:
  void begin();
  void end();

  ProcessorTime* task_;
  TaskPart* outer_;
  bool within_;  // a part of the same task: no need to ask the clock, which takes microseconds
  std::chrono::nanoseconds begun_{};
};

/// `work` as a part of the calling thread's task, on any thread: for work given to other threads.
template <class Work>
auto part_of_this_task(Work work) {
  return [task = TaskPart::task_here(), work = std::move(work)](const auto&... arguments) {
    const TaskPart part(task);
    return work(arguments...);
  };
}

}  // namespace baechi
