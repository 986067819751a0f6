/// Turns Ctrl-C (SIGINT) and SIGTERM into a request to stop, so that finished work is kept.
#pragma once
#include <atomic>
#include <csignal>
#include <string>
#include <thread>

namespace baechi {

/// While an Interrupt exists, the first SIGINT or SIGTERM sets wanted() and prints `first_answer`;
/// the second ends the program at once with exit code 130. Any thread may receive the signal, even
/// one that was started before this object: the handler only sets a flag. An ignored signal stays
/// ignored. At most one Interrupt may exist at a time.
class Interrupt {
 public:
  /// `first_answer`: the text to print on the first signal, such as "finishing the runs".
  explicit Interrupt(std::string first_answer);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  const std::atomic<bool>& wanted() const;

 private:
  struct sigaction before_int_{}, before_term_{};
  std::jthread watcher_;  ///< prints the answer: a signal handler must not print
};

/// While no Interrupt exists, SIGINT and SIGTERM shall end the program with exit code 130. A signal
/// that was ignored when the program started stays ignored, such as SIGINT for a shell's background
/// job.
void exit_on_interrupt();

}  // namespace baechi
