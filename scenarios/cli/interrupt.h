/// Ctrl-C (SIGINT) and SIGTERM as a wish to stop, so that what is done so far is kept.
#pragma once
#include <atomic>
#include <csignal>
#include <string>
#include <thread>

namespace baechi {

/// While it lives, the first SIGINT or SIGTERM sets wanted() and prints `first_answer`; the second
/// ends the program at once, with exit code 130. The signal may reach any thread, also one that is
/// older than this object: the handler only sets a flag. A signal that was ignored stays ignored.
/// At most one lives at a time.
class Interrupt {
 public:
  /// `first_answer`: what is printed on the first signal, such as "finishing the runs".
  explicit Interrupt(std::string first_answer);
  ~Interrupt();
  Interrupt(const Interrupt&) = delete;
  Interrupt& operator=(const Interrupt&) = delete;
  const std::atomic<bool>& wanted() const;

 private:
  struct sigaction before_int_{}, before_term_{};
  std::jthread watcher_;  ///< prints the answer, which a signal handler may not
};

/// For the time without an Interrupt: SIGINT and SIGTERM end the program with exit code 130, unless
/// they were ignored when it started, as SIGINT is in the background of a shell.
void exit_on_interrupt();

}  // namespace baechi
