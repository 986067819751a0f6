/// Joins two files of one recording: finds the Kineto event of each call of an execution trace.
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
  std::size_t matched = 0;   ///< calls with an event of their own
  std::size_t repeated = 1;  ///< how often the recording has these names in this order
  /// Where `repeated` is over 1: autograd's numbers chose the repetition; else it is the last one.
  bool numbers_agreed = false;
};

/// Joins by the first key that joins enough calls:
/// 1. the numbers under "Record function id", where the names agree: nine calls in ten,
/// 2. the numbers under "External id", where the names agree: nine calls in ten,
/// 3. the order of names on each thread, as recorded: all calls,
/// 4. the order of names, without each only child that has its parent's name: the profiler without
///    Kineto does not export such a child. A call left out gets the event of its parent. All calls,
/// 5. the order of names with gaps, by 3 or 4, whichever joins more: 99 calls in 100.
/// Throws InputError, with the matches of each key, if no key does: the files are of two runs.
Join join(const ExecutionTrace& trace, const Kineto& kineto, const std::string& trace_path,
          const std::string& kineto_path);

/// When a call ran, and how long the GPU worked for it.
struct CallTime {
  bool known = false;
  /// `device`: sum over the kernels, copies and fills that were launched in the call.
  Duration start{}, end{}, device{};
  std::size_t line = 0;  ///< index of the call's event in the Kineto file, from 0
};

/// The times of each call: [calls].
std::vector<CallTime> call_times(const ExecutionTrace& trace, const Kineto& kineto,
                                 const Join& join);

}  // namespace baechi::pytorch
