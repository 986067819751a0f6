/// Which event of a Kineto trace is which call of an execution trace.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "traces/import/pytorch/execution_trace.h"
#include "traces/import/pytorch/kineto.h"

namespace baechi::pytorch {

struct Join {
  std::vector<std::optional<std::size_t>> event;  ///< [calls] into Kineto::calls
  std::string key;              ///< "Record function id", "External id" or "order of names"
  std::size_t matched = 0;      ///< calls with an event of their own
  std::size_t repeated = 1;     ///< how often the recording holds these names in this order
  bool numbers_agreed = false;  ///< autograd's numbers said which of them; else the last was taken
};

/// Tries, in this order: the numbers under "Record function id"; those under "External id"; the
/// order of names on each thread, as recorded or with an only child of its parent's name left out,
/// as the profiler without Kineto exports. A number counts only where the names agree. Calls that
/// are left out have the event of their parent. Throws InputError, with what each found, if none
/// joins nine calls in ten: the files are not of one run.
Join join(const ExecutionTrace& trace, const Kineto& kineto, const std::string& trace_path,
          const std::string& kineto_path);

/// When a call ran, and for how long the kernels, copies and fills did that were launched in it.
struct CallTime {
  bool known = false;
  Duration start{}, end{}, device{};
  std::size_t line = 0;  ///< of the events of the Kineto trace
};

/// [calls]
std::vector<CallTime> call_times(const ExecutionTrace& trace, const Kineto& kineto,
                                 const Join& join);

}  // namespace baechi::pytorch
