/// Runs another program under limits: text in, text out.
#pragma once
#include <chrono>
#include <span>
#include <string>
#include <string_view>

#include "placers/external/supervisor.h"

namespace baechi::external {

struct ProcessLimits {
  std::chrono::nanoseconds time{};             ///< from start to end, wall-clock
  std::size_t output = std::size_t{1} << 30U;  ///< bytes of standard output
  Limits resources{};
};

/// The limit, if any, for which the program was killed.
enum class Stopped { no, time, output, memory, processes };

struct ProcessResult {
  Stopped stopped = Stopped::no;
  int exit_code = 0;       ///< meaningful if neither `stopped` nor `signal`
  int signal = 0;          ///< the signal that ended it, or 0
  std::string out;         ///< standard output
  std::string error_tail;  ///< the last 4 KiB or more of its standard error
};

/// Runs the program at `path` (not searched for in PATH) with `input` on its standard input, which
/// it need not read. When this returns or throws, the program and all its descendants have ended;
/// they also end if this process is killed. May be called from several threads at once. Throws
/// InputError, as "path: why", if the program cannot be started; std::system_error if this process
/// cannot create more processes or pipes.
ProcessResult run_process(const std::string& path, std::span<const std::string> args,
                          std::string_view input, const ProcessLimits& limits);

}  // namespace baechi::external
