/// A persistent program that answers each input line with one line, under limits.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "placers/external/child_process.h"

namespace baechi::external {

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
