#include "scenarios/cli/progress.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <string>

namespace baechi {
namespace {

using Seconds = std::chrono::duration<double>;

std::string rounded(Seconds time) {
  const auto s = std::llround(time.count());
  if (s < 60) return fmt::format("{} s", s);
  if (s < 3600) return fmt::format("{} min {:02} s", s / 60, s % 60);
  return fmt::format("{} h {:02} min", s / 3600, s / 60 % 60);
}

}  // namespace

Progress::Progress(const std::atomic<std::size_t>& done, std::size_t total, bool quiet)
    : done_(done), total_(total), terminal_(isatty(STDERR_FILENO) == 1) {
  if (!quiet) watcher_ = std::jthread([this](const std::stop_token& stop) { watch(stop); });
}

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
  const std::size_t done = done_.load(std::memory_order_relaxed);
  const Seconds elapsed = std::chrono::steady_clock::now() - start_;
  const double rate = static_cast<double>(done) / elapsed.count();
  const std::string left =
      done == 0
          ? ""
          : fmt::format(
                ", {:.3g}/s, {} left", rate,
                rounded(Seconds(static_cast<double>(total_ - std::min(done, total_)) / rate)));
  const std::string line =
      fmt::format("{} of {} runs in {}{}", done, total_, rounded(elapsed), left);
  if (terminal_) {
    fmt::print(stderr, "\r{:<{}}", line, shown_);
    shown_ = line.size();
    std::fflush(stderr);
  } else {
    fmt::print(stderr, "{}\n", line);
  }
}

}  // namespace baechi
