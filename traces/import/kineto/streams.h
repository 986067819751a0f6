/// The work that the streams of a step have run so far, in launch order.
#pragma once
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "traces/import/kineto/call_context.h"

namespace baechi::kineto {

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
