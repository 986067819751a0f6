/// The times of a recorded step, and the ops' times and temporary bytes that follow from them.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "traces/import/pytorch/dataflow.h"
#include "traces/import/pytorch/join.h"

namespace baechi::pytorch {

/// The times of a recording, and the ops' times and temporary bytes that follow from them.
class Times {
 public:
  Times() = default;
  /// The times of `trace` in the file `kineto` of the same run; `path` is the trace's own file.
  Times(const ExecutionTrace& trace, const std::string& path, TextFile& kineto);

  bool known() const { return !calls_.empty(); }
  bool on_gpu() const { return kineto_.device_events > 0; }
  Duration compute(const RecordedOp& op) const;
  bool measured(const RecordedOp& op) const;
  /// Temporary bytes: the peak of allocated bytes while the op runs, less the bytes allocated at
  /// the start of `since`, which is the op's first call or a call around it, less the outputs that
  /// the op allocated. 0 for a part of a call, where they are not known.
  std::int64_t temporary(const RecordedOp& op, const Call& since) const;
  void note(const Dataflow& flow, std::size_t calls, Trace& trace) const;
  const Kineto& kineto() const { return kineto_; }

 private:
  std::int64_t live_before(const Call& call) const;

  Kineto kineto_;
  Join join_;
  std::vector<CallTime> calls_;
  std::vector<MemoryEvent> memory_;  // on the device that ran the step, by time
  std::vector<std::int64_t> live_;   // [memory_] bytes allocated after the event, since the first
};

}  // namespace baechi::pytorch
