#pragma once
#include <map>
#include <string>
#include <utility>

#include "traces/import/kineto/step.h"

namespace baechi::kineto {

/// Maps the threads and streams of a recording to lanes. Threads are "host", "host 2", ..., the one
/// with most calls first; without a GPU, "compute", "thread 2", ... Streams of a device are
/// "compute" (the busiest), "comm" (mostly NCCL kernels), "copy" (mostly copies), or "stream 21". A
/// graph has at most 64 lanes, so threads and streams beyond 20 share one.
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
