/// Shows the progress of long work on standard error: on a terminal one line that is rewritten,
/// otherwise a new line every 10 s.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "sim/watch.h"

namespace baechi {

class Progress {
 public:
  /// Returns the text to show after the given seconds, or "" to show nothing yet. Called by a
  /// thread of its own.
  using Line = std::function<std::string(std::chrono::duration<double>)>;

  /// Shows `line` until this object is destroyed. If `quiet`, shows nothing.
  Progress(Line line, bool quiet);
  /// Shows how many of `total` runs are done: reads `done`, which must outlive this object.
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
  std::size_t shown_ = 0;  ///< characters on the terminal's line
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread watcher_;
};

/// Shows the progress of one stage, such as "reading graph.json, 43 % in 5 s". Only on a terminal,
/// and only if the stage takes more than a second.
class Stage {
 public:
  /// `done`, if given, must outlive this object; it counts in the unit of `total`. `total` 0: the
  /// amount of work is unknown, and only the time is shown.
  explicit Stage(std::string what, const std::atomic<std::size_t>* done = nullptr,
                 std::size_t total = 0);

 private:
  Progress progress_;
};

/// Shows what a computation tells now and then: a line, and the part of the work that is done, 0 to
/// 1. Where and when a Stage would.
class ToldStage {
 public:
  explicit ToldStage(std::string first);
  void tell(std::string_view line, double done);

 private:
  std::mutex mutex_;
  std::string line_;
  double done_ = 0.0;
  Progress progress_;  ///< last: its thread reads the others
};

/// Shows counted work as a Stage named `what`.
Watch stages(std::string what);

}  // namespace baechi
