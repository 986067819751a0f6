/// Joins two files of one recording: the Kineto event of each call of an execution trace.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "traces/import/pytorch/execution_trace.h"
#include "traces/import/pytorch/kineto.h"

namespace baechi::pytorch {

struct Join {
  std::vector<std::optional<std::size_t>> event;  ///< [calls] index into Kineto::calls
  std::string key;           ///< "Record function id", "External id" or "order of names"
  std::size_t matched = 0;   ///< number of calls with an event
  std::size_t repeated = 1;  ///< number of occurrences of these names in this order
  /// If `repeated` > 1: whether autograd's sequence numbers chose the occurrence; else the last one
  /// is used.
  bool numbers_agreed = false;
};

/// Joins by the first key that joins enough calls:
/// 1. "Record function id" and equal names: 90 % of the calls,
/// 2. "External id" and equal names: 90 %,
/// 3. the order of names on each thread: 100 %,
/// 4. as 3, without only children that have their parent's name, which the profiler without Kineto
/// does not export. They get the event of their parent: 100 %,
/// 5. as 3 or 4, with gaps, whichever joins more: 99 %.
/// Throws InputError, with the matches of each key, if no key suffices: the files are of two runs.
Join join(const ExecutionTrace& trace, const Kineto& kineto, const std::string& trace_path,
          const std::string& kineto_path);

/// When a call ran, and the GPU time of its kernels.
struct CallTime {
  bool known = false;
  /// `device`: total time of the kernels, copies and fills that were launched in the call.
  Duration start{}, end{}, device{};
  std::size_t line = 0;  ///< index of the call's event in the Kineto file, from 0
};

/// [calls]
std::vector<CallTime> call_times(const ExecutionTrace& trace, const Kineto& kineto,
                                 const Join& join);

}  // namespace baechi::pytorch
