#include "cli/interrupt.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <chrono>
#include <utility>

namespace baechi {
namespace {

constexpr int interrupted = 130;

// Signal handlers need global state. This is the only global state of the program.
std::atomic<bool> wanted_flag = false;
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void set_flag(int /*signal*/) {
  if (wanted_flag.exchange(true)) _exit(interrupted);
}

extern "C" void exit_now(int /*signal*/) {
  _exit(interrupted);
}

/// Installs `handler` for `signal` unless the signal is ignored; returns the previous action.
struct sigaction handle(int signal, void (*handler)(int)) {
  struct sigaction previous{}, action{};
  sigaction(signal, nullptr, &previous);
  if (previous.sa_handler == SIG_IGN) return previous;
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  sigaction(signal, &action, nullptr);
  return previous;
}

void watch(const std::stop_token& stop, const std::string& first_answer) {
  pthread_setname_np(pthread_self(), "interrupts");
  while (!stop.stop_requested() && !wanted_flag)
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  if (wanted_flag)
    fmt::print(stderr, "\ninterrupted: {} (interrupt again to stop immediately)\n", first_answer);
}

}  // namespace

Interrupt::Interrupt(std::string first_answer) {
  wanted_flag = false;
  before_int_ = handle(SIGINT, set_flag);
  before_term_ = handle(SIGTERM, set_flag);
  watcher_ = std::jthread(
      [answer = std::move(first_answer)](const std::stop_token& stop) { watch(stop, answer); });
}

Interrupt::~Interrupt() {
  watcher_.request_stop();
  watcher_.join();
  sigaction(SIGINT, &before_int_, nullptr);
  sigaction(SIGTERM, &before_term_, nullptr);
}

const std::atomic<bool>& Interrupt::wanted() const {
  return wanted_flag;
}

void exit_on_interrupt() {
  handle(SIGINT, exit_now);
  handle(SIGTERM, exit_now);
}

}  // namespace baechi
