/// Runs another program under limits: text in, text out.
#pragma once
#include <chrono>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "placers/external/sandbox.h"

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

/// Starts with the first ask(). As with run_process(), the program and all its descendants end with
/// this object, or with this process, however the process ends. ProcessLimits::time and ::output
/// apply to each answer, the other limits to the whole life of the program.
class LineProgram {
 public:
  LineProgram(std::string path, std::vector<std::string> args, ProcessLimits limits);
  ~LineProgram();
  LineProgram(const LineProgram&) = delete;
  LineProgram& operator=(const LineProgram&) = delete;

  /// Writes `line`, which has no line break, and reads the next line into ProcessResult::out. If
  /// there is no answer, the result has the reason: the exceeded limit, or how the program ended.
  /// Status 0 without an answer is a failure, too. A program that has ended is started again by the
  /// next call. Throws InputError, as "path: why", if the program cannot be started, or if it wrote
  /// more than one line for the last call. Not thread-safe.
  ProcessResult ask(std::string_view line);

 private:
  struct Running;
  std::string path_;
  std::vector<std::string> args_;
  ProcessLimits limits_;
  std::unique_ptr<Running> running_;
};

}  // namespace baechi::external
