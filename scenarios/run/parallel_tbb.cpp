#include <oneapi/tbb/global_control.h>
#include <oneapi/tbb/parallel_for.h>
#include <oneapi/tbb/task_arena.h>

#include <algorithm>

#include "scenarios/run/parallel.h"

namespace baechi {

void for_each_in_parallel(std::size_t count, std::size_t threads, const std::atomic<bool>* stop,
                          const std::function<void(std::size_t)>& work) {
  const std::size_t workers = std::max<std::size_t>(1, std::min(threads, count));
  std::atomic<std::size_t> next{0};
  const auto take_turns = [&](std::size_t) {
    while (stop == nullptr || !stop->load(std::memory_order_relaxed)) {
      const std::size_t i = next.fetch_add(1, std::memory_order_relaxed);
      if (i >= count) return;
      work(i);
    }
  };
  if (workers == 1) return take_turns(0);
  // As many threads as requested, also if the machine has fewer cores.
  const oneapi::tbb::global_control limit(oneapi::tbb::global_control::max_allowed_parallelism,
                                          workers);
  oneapi::tbb::task_arena arena(static_cast<int>(workers));
  arena.execute([&] {
    oneapi::tbb::parallel_for(std::size_t{0}, workers, take_turns,
                              oneapi::tbb::simple_partitioner());
  });
}

}  // namespace baechi
