#include "validate/cuda/live_run.h"

#include <algorithm>

namespace baechi::validate::replay {

LiveRun::LiveRun(Step& step)
    : step_(step),
      plan_(step.plan_),
      memory_(plan_.buffers.size(), nullptr),
      taken_by_(plan_.tasks.size()),
      readers_of_(plan_.tasks.size()),
      ended_(plan_.tasks.size(), false) {
  for (std::size_t b = 0; b < plan_.buffers.size(); ++b) {
    taken_by_[static_cast<std::size_t>(plan_.buffers[b].task)].push_back(b);
    std::vector<int> readers = plan_.buffers[b].until;
    std::ranges::sort(readers);
    readers.erase(std::ranges::unique(readers).begin(), readers.end());
    for (const int reader : readers) readers_of_[static_cast<std::size_t>(reader)].push_back(b);
    readers_left_.push_back(readers.size());
  }
  for (const Task& task : plan_.tasks) ends_.push_back(step_.machine_.event_for(task));
}

bool LiveRun::is_ready(int task) const {
  return std::ranges::all_of(plan_.tasks[static_cast<std::size_t>(task)].after,
                             [&](int other) { return ended_[static_cast<std::size_t>(other)]; });
}

/// The device that has no room, if one has none.
std::optional<int> LiveRun::start(int task) {
  const auto t = static_cast<std::size_t>(task);
  for (const std::size_t b : taken_by_[t]) {
    const Buffer& buffer = plan_.buffers[b];
    memory_[b] = pools_[static_cast<std::size_t>(buffer.device)]->allocate(buffer.bytes);
    if (memory_[b] == nullptr) return buffer.device;
  }
  step_.launch(t);
  REPLAY_CUDA(cudaEventRecord(ends_[t].get(), step_.machine_.queue(plan_.tasks[t])));
  return std::nullopt;
}

void LiveRun::finish(int task) {
  ended_[static_cast<std::size_t>(task)] = true;
  for (const std::size_t buffer : readers_of_[static_cast<std::size_t>(task)]) {
    if (--readers_left_[buffer] != 0 || memory_[buffer] == nullptr) continue;
    pools_[static_cast<std::size_t>(plan_.buffers[buffer].device)]->release(memory_[buffer]);
  }
}

void LiveRun::run(StepResult& result) {
  const auto out_of_memory = [&](int device, const std::string& what) {
    result.verdict = StepResult::Verdict::oom;
    result.why = "device " + std::to_string(device) + " has no room for " + what;
  };
  // Reserving maps memory, which takes longer than the step: a device that has the largest budget
  // is not the limited one, unless all are alike.
  const auto [least, most] = std::ranges::minmax(plan_.budget);
  for (int device = 0; device < plan_.devices; ++device) {
    const auto d = static_cast<std::size_t>(device);
    pools_.push_back(std::make_unique<MemoryPool>(plan_.budget[d]));
    if (plan_.budget[d] < most || least == most) pools_.back()->reserve();
    if (pools_.back()->allocate(plan_.resident[d]) == nullptr)
      return out_of_memory(device, "what is resident");
  }
  const auto queues = static_cast<std::size_t>(plan_.num_queues());
  std::vector<std::vector<int>> order(queues);
  for (std::size_t i = 0; i < plan_.tasks.size(); ++i)
    order[static_cast<std::size_t>(plan_.queue_of(plan_.tasks[i]))].push_back(static_cast<int>(i));
  std::vector<std::size_t> head(queues, 0);
  std::vector<bool> running(queues, false);
  const std::int64_t begin = host_ns();
  for (std::size_t left = plan_.tasks.size(); left > 0;) {
    for (std::size_t q = 0; q < queues; ++q) {
      if (!running[q]) continue;
      const int task = order[q][head[q]];
      const cudaError_t state = cudaEventQuery(ends_[static_cast<std::size_t>(task)].get());
      if (state == cudaErrorNotReady) continue;
      check(state, "cudaEventQuery");
      finish(task);
      running[q] = false;
      ++head[q];
      --left;
    }
    for (std::size_t q = 0; q < queues; ++q) {
      if (running[q] || head[q] == order[q].size() || !is_ready(order[q][head[q]])) continue;
      const int task = order[q][head[q]];
      if (const std::optional<int> full = start(task)) {
        REPLAY_CUDA(cudaDeviceSynchronize());
        return out_of_memory(*full, "task " + std::to_string(task));
      }
      running[q] = true;
    }
  }
  result.submit_ns = host_ns() - begin;
  REPLAY_CUDA(cudaDeviceSynchronize());
  for (const auto& pool : pools_) result.peak.push_back(pool->most_used());
}

}  // namespace baechi::validate::replay
