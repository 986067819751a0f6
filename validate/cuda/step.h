/// A plan made ready to run on a machine, again and again.
#pragma once

#include "validate/cuda/machine.h"
#include "validate/plan/timeline.h"

namespace baechi::validate::replay {

struct StepResult {
  enum class Verdict { ok, failed };
  Verdict verdict = Verdict::ok;
  std::string why;             ///< of failed
  std::int64_t submit_ns = 0;  ///< host time to submit the step
  std::int64_t first_ns =
      0;           ///< host time until the first task was submitted; no meaning for graphs
  Timeline times;  ///< from the first start
  std::vector<std::int64_t> peak;  ///< [devices], or empty: not known
};

const char* name_of(StepResult::Verdict verdict);

/// Bytes of scratch that the ops and transfers of `plan` want, per device, and of pinned memory.
std::int64_t scratch_of(const ReplayPlan& plan);
std::int64_t pinned_of(const ReplayPlan& plan);

class Step {
 public:
  /// In mode graph the step is captured here. `plan` and `machine` must outlive the step. Throws
  /// CudaError if the machine cannot run it (too large for its scratch memory, no cuBLAS, ...).
  Step(Machine& machine, const ReplayPlan& plan);

  /// Throws CudaError if CUDA does: the machine may then be beyond use.
  StepResult run();

 private:
  /// The memory that a task reads and writes: slices of its device's scratch memory. They rotate so
  /// that neighbours do not find each other's data in the cache.
  struct Place {
    char* from = nullptr;
    char* to = nullptr;
    std::int64_t bytes = 0;  ///< bytes of a transfer; way link: at most the scratch
  };

  struct Queue {
    cudaStream_t stream = nullptr;
    Event event;  ///< of the first queue: the gate is open; of the others: all was done
  };

  void lay_out();
  Place place_of_op(const Task& task, std::int64_t& next);
  Place place_of_transfer(const Task& task, int source, std::vector<std::int64_t>& next);
  std::int64_t slice(std::int64_t bytes, std::int64_t& next) const;
  void find_waits();
  void capture();
  void reset_stamps();
  void fork();
  void join();
  std::int64_t submit_all();
  void launch(std::size_t i);
  void launch_op(const Task& task, Device& device, cudaStream_t stream, const Place& place,
                 Stamp* stamp);
  void launch_transfer(const Task& task, Device& device, cudaStream_t stream, const Place& place,
                       Stamp* stamp);
  void submit(StepResult& result);
  void read_stamps(StepResult& result);

  Stamp* stamp(std::size_t task);

  Machine& machine_;
  const ReplayPlan& plan_;
  std::vector<Place> places_;            ///< [tasks]
  std::vector<std::vector<int>> waits_;  ///< [tasks], the tasks whose events each waits for
  std::vector<Event> events_;            ///< [tasks], of tasks with waiters
  std::vector<Queue> queues_;            ///< queues in use; the first holds the gate
  std::vector<Stamp> stamps_;            ///< [tasks]
  DeviceMemory gpu_stamps_;              ///< [tasks]
  GraphExec graph_;
};

}  // namespace baechi::validate::replay
