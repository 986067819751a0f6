#pragma once
#include <atomic>
#include <csignal>
#include <string>
#include <thread>

namespace baechi {

/// While an Interrupt exists, the first SIGINT or SIGTERM sets wanted() and prints `first_answer`;
/// the second exits immediately with code 130. Any thread may receive the signal. An ignored signal
/// stays ignored. At most one Interrupt may exist at a time.
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
  std::jthread watcher_;  ///< prints the answer, because a signal handler must not print
};

/// Lets SIGINT and SIGTERM exit with code 130 while no Interrupt exists. A signal that was ignored
/// at start, such as SIGINT of a shell's background job, stays ignored.
void exit_on_interrupt();

}  // namespace baechi
