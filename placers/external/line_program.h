/// Another program that answers question after question, a line for a line, under limits.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "placers/external/child_process.h"

namespace baechi::external {

/// Starts with the first question. What ProcessLimits and run_process() say of safety holds: the
/// program and all that it starts end with this, or with this process, however that ends.
/// ProcessLimits::time and ::output are of each answer, the other limits of all the time.
class LineProgram {
 public:
  LineProgram(std::string path, std::vector<std::string> args, ProcessLimits limits);
  ~LineProgram();
  LineProgram(const LineProgram&) = delete;
  LineProgram& operator=(const LineProgram&) = delete;

  /// Writes `line`, which has no line break, and reads the next line, which is ProcessResult::out.
  /// If there is none, the result says why: what was over a limit, or how the program ended; a
  /// program that ends with status 0 has ended too early. It is then started again with the next
  /// question. Throws InputError, as "path: why", if the program cannot be started, or if it wrote
  /// more than one line for the last question. For one thread.
  ProcessResult ask(std::string_view line);

 private:
  struct Running;
  std::string path_;
  std::vector<std::string> args_;
  ProcessLimits limits_;
  std::unique_ptr<Running> running_;
};

}  // namespace baechi::external
