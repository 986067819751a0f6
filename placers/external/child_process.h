/// Runs another program: text in, text out, within a time limit.
#pragma once
#include <chrono>
#include <span>
#include <string>
#include <string_view>

namespace baechi {

struct ProcessResult {
  int exit_code = 0;       ///< meaningful unless one of the next three
  int signal = 0;          ///< that ended it, or 0
  bool timed_out = false;  ///< it was killed at the time limit
  bool too_much = false;   ///< it was killed for its output was over `most_output`
  std::string out;         ///< standard output
  std::string error_tail;  ///< the end of its standard error
};

/// Runs the program at `path` (not searched for) with `input` on its standard input, which it need
/// not read. It and what it started are killed at the time limit. May be called from several
/// threads at once. Throws InputError, as "path: why", if it cannot be started.
ProcessResult run_process(const std::string& path, std::span<const std::string> args,
                          std::string_view input, std::chrono::nanoseconds time_limit,
                          std::size_t most_output = std::size_t{1} << 30);

}  // namespace baechi
