/// Another program that answers question after question, a line for a line, under limits.
#pragma once
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "placers/external/child_process.h"

namespace baechi::external {

/// Starts with the first question. Safety is as in ProcessLimits and run_process(): the program and
/// all its descendants end with this object, or with this process, however the process ends.
/// ProcessLimits::time and ::output are for each answer, the other limits for the whole life of the
/// program.
class LineProgram {
 public:
  LineProgram(std::string path, std::vector<std::string> args, ProcessLimits limits);
  ~LineProgram();
  LineProgram(const LineProgram&) = delete;
  LineProgram& operator=(const LineProgram&) = delete;

  /// Writes `line`, which has no line break, and reads the next line into ProcessResult::out.
  /// Without an answer the result says why: the exceeded limit, or how the program ended. A program
  /// that ends with status 0 has ended too early. It is started again with the next question.
  /// Throws InputError, as "path: why", if the program cannot be started, or if it wrote more than
  /// one line for the last question. For one thread.
  ProcessResult ask(std::string_view line);

 private:
  struct Running;
  std::string path_;
  std::vector<std::string> args_;
  ProcessLimits limits_;
  std::unique_ptr<Running> running_;
};

}  // namespace baechi::external
