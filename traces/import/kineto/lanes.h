/// The lanes of a recording, and the work that the streams of a step have run so far.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "traces/import/kineto/host_pieces.h"
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

struct Stream {
  std::size_t last = none;   ///< index of its last op
  std::size_t piece = none;  ///< number of the host piece that launched it
  Duration end{};            ///< of its last work
  std::vector<std::pair<Duration, std::size_t>> ran{};       ///< recorded ends, ascending, and ops
  std::vector<std::pair<Duration, std::size_t>> launched{};  ///< starts of launches, and ops

  /// Recorded end and op of the last work that ended by `at`.
  std::optional<std::pair<Duration, std::size_t>> last_ended(Duration at) const;
};

class Streams {
 public:
  Stream& of(const DeviceWork& work) { return streams_[{work.device, work.stream}]; }
  const Stream* find(const DeviceWork& work) const { return find(work.device, work.stream); }
  const Stream* find(std::int64_t device, std::int64_t number) const {
    const auto found = streams_.find({device, number});
    return found == streams_.end() ? nullptr : &found->second;
  }
  /// Recorded end and op of the last work of each stream that ended by `at`, except of stream
  /// `but`.
  std::vector<std::pair<Duration, std::size_t>> ended(Duration at,
                                                      const Stream* but = nullptr) const;

 private:
  std::map<std::pair<std::int64_t, std::int64_t>, Stream> streams_;  // device, number
};

}  // namespace baechi::kineto
