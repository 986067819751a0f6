/// One device of a processor: the work of its thread in one step of a plan.
#pragma once
#include <atomic>
#include <cstdint>
#include <span>
#include <vector>

#include "validate/plan/plan.h"

namespace baechi::validate {

std::int64_t clock_ns();  ///< of a monotonic clock

/// A task as all devices see it.
struct alignas(64) SharedTask {
  std::atomic<bool> ended{false};
  std::int64_t start = 0, end = 0;  ///< of clock_ns(); read by others once it has ended
};

class Worker;

/// One run of a plan, as all devices see it.
struct SharedStep {
  SharedStep(const ReplayPlan& plan, std::int64_t limit_ns);

  const ReplayPlan& plan;
  std::int64_t limit;  ///< ns; a step that lasts longer is given up
  std::vector<SharedTask> tasks;
  std::vector<std::atomic<std::int64_t>> bytes;    ///< [devices] taken
  std::vector<std::atomic<int>> readers;           ///< [buffers] that have not ended
  std::vector<std::vector<std::size_t>> taken_by;  ///< [tasks] buffers
  std::vector<std::vector<std::size_t>> read_by;   ///< [tasks] buffers
  std::vector<const Worker*> workers;              ///< [devices] that have arrived
  std::atomic<int> arrived{0};                     ///< devices at the start
  std::atomic<bool> stop{false}, full{false};      ///< given up; for want of memory
};

/// Largest sizes of a device's bodies.
inline constexpr std::int64_t processor_gemm = 512;                   ///< n
inline constexpr std::int64_t processor_ew = std::int64_t{64} << 20;  ///< bytes

class Worker {
 public:
  /// Makes and touches its memory: to be called by the thread that works.
  Worker(int device, int devices);

  /// Until all of the device's tasks have ended, or the step is given up.
  void run(SharedStep& step);

  /// What a transfer of this worker has written for `receiver`.
  std::span<const float> written(const Task& transfer, int id, int receiver) const;
  /// What the largest transfer that `task` waits for has written here; empty if there is none.
  std::span<const float> received(const Task& task) const;
  /// What the last pass or product of this worker has written.
  std::span<const float> made() const { return made_; }

 private:
  /// A transfer queue and the transfer that it is busy with.
  struct Link {
    std::vector<int> tasks;
    std::size_t head = 0;
    bool busy = false;
    std::int64_t copied = 0;
  };

  bool is_ready(const Task& task) const;
  void begin(int id);
  void end(int id);
  void serve_links();
  void serve(Link& link);
  void run_op(const Task& task, std::int64_t begun);
  void spin_until(std::int64_t time);
  /// Both read what was received first, and then scratch memory.
  void elementwise(std::int64_t bytes, std::span<const float> received);
  void product(int n, std::span<const float> received);
  std::size_t slice(std::int64_t floats);

  const int device_;
  std::vector<float> inputs_, outputs_;
  std::span<const float> made_;            // in outputs_
  std::size_t next_ = 0;                   // of the scratch memory, in floats
  std::vector<float> source_;              // of its links
  std::vector<std::vector<float>> sinks_;  // [receiver] of its links
  std::vector<std::size_t> at_;            // [tasks] where in its sink a transfer begins, in floats
  SharedStep* step_ = nullptr;
  std::vector<int> ops_;
  std::vector<Link> links_;
};

}  // namespace baechi::validate
