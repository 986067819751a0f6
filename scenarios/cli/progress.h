/// How far a long run is, on standard error: one line that renews itself on a terminal, else a line
/// every 10 s.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace baechi {

class Progress {
 public:
  /// Watches `done` go up to `total` until it is destroyed. `quiet` says nothing at all.
  Progress(const std::atomic<std::size_t>& done, std::size_t total, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void watch(const std::stop_token& stop);
  void show();

  const std::atomic<std::size_t>& done_;
  const std::size_t total_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::size_t shown_ = 0;  ///< letters on the line
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread watcher_;
};

}  // namespace baechi
