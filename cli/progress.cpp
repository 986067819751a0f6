#include "cli/progress.h"

#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace baechi {
namespace {

using Seconds = std::chrono::duration<double>;

std::string format_duration(Seconds time) {
  const auto s = std::llround(time.count());
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

bool errors_on_terminal() { return isatty(STDERR_FILENO) == 1; }

std::string runs_line(std::size_t done, std::size_t total, Seconds elapsed) {
  const double rate = static_cast<double>(done) / elapsed.count();
  const std::string left =
      done == 0 ? ""
                : fmt::format(", {:.3g}/s, {} left", rate,
                              format_duration(Seconds(
                                  static_cast<double>(total - std::min(done, total)) / rate)));
  return fmt::format("{} of {} runs in {}{}", done, total, format_duration(elapsed), left);
}

/// `done`: a fraction, 0 to 1.
std::string stage_line(std::string_view what, double done, Seconds elapsed) {
  if (elapsed < Seconds(1.0)) return "";
  if (done <= 0.0) return fmt::format("{}, {}", what, format_duration(elapsed));
  return fmt::format("{}, {} % in {}, {} left", what, static_cast<int>(100.0 * done),
                     format_duration(elapsed), format_duration(elapsed * (1.0 / done - 1.0)));
}

/// The fraction of `total` that is done; 0 if unknown.
double fraction_done(const std::atomic<std::size_t>* done, std::size_t total) {
  if (done == nullptr || total == 0) return 0.0;
  return static_cast<double>(std::min(done->load(), total)) / static_cast<double>(total);
}

constexpr int interrupted = 130;

// Signal handlers need global state. This is the only global state of the program.
std::atomic<bool> wanted_flag = false;
static_assert(std::atomic<bool>::is_always_lock_free);

extern "C" void set_flag(int /*signal*/) {
  if (wanted_flag.exchange(true)) _exit(interrupted);
}

extern "C" void exit_now(int /*signal*/) { _exit(interrupted); }

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

Progress::Progress(Line line, bool quiet)
    : line_(std::move(line)), terminal_(errors_on_terminal()) {
  if (!quiet) watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

Progress::Progress(const std::atomic<std::size_t>& done, std::size_t total, bool quiet,
                   std::string what)
    : Progress([&done, total, what = std::move(what)](
                   Seconds elapsed) { return what + runs_line(done, total, elapsed); },
               quiet) {}

Progress::~Progress() {
  if (!watcher_.joinable()) return;
  watcher_.request_stop();
  watcher_.join();
  if (shown_ > 0) fmt::print(stderr, "\r{:{}}\r", "", shown_);
}

void Progress::watch(const std::stop_token& stop) {
  std::unique_lock lock(mutex_);
  const Seconds pause(terminal_ ? 0.1 : 10.0);
  while (!wake_.wait_for(lock, stop, pause, [&stop] { return stop.stop_requested(); })) show();
}

void Progress::show() {
  const std::string line = line_(std::chrono::steady_clock::now() - start_);
  if (line.empty()) return;
  if (terminal_) {
    fmt::print(stderr, "\r{:<{}}", line, shown_);
    shown_ = line.size();
    std::fflush(stderr);
  } else {
    fmt::print(stderr, "{}\n", line);
  }
}

Stage::Stage(std::string what, const std::atomic<std::size_t>* done, std::size_t total)
    : progress_(
          [what = std::move(what), done, total](Seconds elapsed) {
            return stage_line(what, fraction_done(done, total), elapsed);
          },
          !errors_on_terminal()) {}

ProgressStage::ProgressStage(std::string first)
    : line_(std::move(first)),
      progress_(
          [this](Seconds elapsed) {
            const std::scoped_lock lock(mutex_);
            return stage_line(line_, done_, elapsed);
          },
          !errors_on_terminal()) {}

void ProgressStage::update(std::string_view line, double done) {
  const std::scoped_lock lock(mutex_);
  line_ = line;
  done_ = done;
}

Watch stages(std::string what) {
  return [what = std::move(what)](const std::atomic<std::size_t>& done, std::size_t total) {
    return std::make_shared<Stage>(what, &done, total);
  };
}

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

const std::atomic<bool>& Interrupt::wanted() const { return wanted_flag; }

void exit_on_interrupt() {
  handle(SIGINT, exit_now);
  handle(SIGTERM, exit_now);
}

}  // namespace baechi
