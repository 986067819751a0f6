/// The work that the streams of a step have run so far, in launch order.
#pragma once
#include <map>
#include <utility>
#include <vector>

#include "traces/import/kineto/call_context.h"

namespace baechi::kineto {

struct Stream {
  std::size_t last = none;   ///< index of its last op
  std::size_t piece = none;  ///< number of the host piece that launched it
  Duration end{};            ///< of its last work
  std::vector<std::pair<Duration, std::size_t>> ran{};  ///< recorded ends, ascending, and ops
};

class Streams {
 public:
  Stream& of(const DeviceWork& work) { return streams_[{work.device, work.stream}]; }
  const Stream* find(const DeviceWork& work) const {
    const auto found = streams_.find({work.device, work.stream});
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
