/// The lanes of a recording's threads and streams.
#pragma once
#include <map>
#include <string>
#include <utility>

#include "traces/import/kineto/step.h"

namespace baechi::kineto {

/// Names of lanes: "host", "host 2", ... for threads, the one with most calls first; of each
/// device's streams "compute" for the busiest, "comm" for those that mostly run NCCL's kernels,
/// "copy" for those that mostly copy, and "stream 21" for others. Without a GPU the threads are
/// "compute", "thread 2", ... Where there are many, the last ones share a lane.
class Lanes {
 public:
  Lanes(const Recording& recording, const Window& window);
  const std::string& of_thread(std::size_t thread) const { return threads_.at(thread); }
  const std::string& of_stream(std::int64_t device, std::int64_t stream) const {
    return streams_.at({device, stream});
  }
  std::size_t main_thread() const { return main_thread_; }

 private:
  std::map<std::size_t, std::string> threads_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> streams_;
  std::size_t main_thread_ = 0;
};

}  // namespace baechi::kineto
