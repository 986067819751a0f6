/// How far something long is, on standard error: one line that renews itself on a terminal, else a
/// line every 10 s.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>

namespace baechi {

class Progress {
 public:
  /// Asked for what to show after so many seconds, by a thread of its own; "": nothing yet.
  using Line = std::function<std::string(std::chrono::duration<double>)>;

  /// Shows `line` until it is destroyed. `quiet` says nothing at all.
  Progress(Line line, bool quiet);
  /// Of runs: watches `done` go up to `total`.
  Progress(const std::atomic<std::size_t>& done, std::size_t total, bool quiet);
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void watch(const std::stop_token& stop);
  void show();

  const Line line_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::size_t shown_ = 0;  ///< letters on the line
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread watcher_;
};

/// "reading graph.json, 43 % in 5 s", of what takes more than a second; on a terminal only.
class Stage {
 public:
  /// `done`, if given, outlives this; `total` 0: it is not known how much there is to do.
  explicit Stage(std::string what, const std::atomic<std::size_t>* done = nullptr,
                 std::size_t total = 0);

 private:
  Progress progress_;
};

}  // namespace baechi
