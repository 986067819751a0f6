#include "scenarios/cli/interrupt.h"

#include <fmt/format.h>
#include <unistd.h>

#include <csignal>
#include <ctime>

namespace baechi {
namespace {

sigset_t only_sigint() {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  return set;
}

void wait_for_interrupts(const std::stop_token& stop, std::atomic<bool>& wanted,
                         const std::string& first_answer) {
  const sigset_t set = only_sigint();
  const timespec pause{.tv_sec = 0, .tv_nsec = 10'000'000};
  while (!stop.stop_requested()) {
    if (sigtimedwait(&set, nullptr, &pause) != SIGINT) continue;
    if (wanted.exchange(true)) _exit(130);
    fmt::print(stderr, "\ninterrupted: {} (again: stop at once)\n", first_answer);
  }
}

}  // namespace

Interrupt::Interrupt(std::string first_answer) {
  const sigset_t set = only_sigint();
  pthread_sigmask(SIG_BLOCK, &set, nullptr);
  watcher_ = std::jthread([this, answer = std::move(first_answer)](const std::stop_token& stop) {
    wait_for_interrupts(stop, wanted_, answer);
  });
}

Interrupt::~Interrupt() {
  watcher_.request_stop();
  watcher_.join();
  const sigset_t set = only_sigint();
  pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
}

}  // namespace baechi
