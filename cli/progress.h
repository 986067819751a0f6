/// Progress on standard error, a line that is rewritten on a terminal, else a new line every 10 s;
/// and the end of a run by a signal.
#pragma once
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>

#include "sim/processor_time.h"

namespace baechi {

class Progress {
 public:
  /// Returns the text to show after the given time, or "" to show nothing yet. Called by another
  /// thread.
  using Line = std::function<std::string(std::chrono::duration<double>)>;

  /// Shows `line` until this object is destroyed, or nothing if `quiet`.
  Progress(Line line, bool quiet);
  /// Shows how many of `total` runs are done, after `what`. `done` must outlive this object.
  Progress(const std::atomic<std::size_t>& done, std::size_t total, bool quiet,
           std::string what = "");
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

 private:
  void watch(const std::stop_token& stop);
  void show();

  const Line line_;
  const bool terminal_;
  const std::chrono::steady_clock::time_point start_ = std::chrono::steady_clock::now();
  std::size_t shown_ = 0;  ///< characters of the current line
  std::mutex mutex_;
  std::condition_variable_any wake_;
  std::jthread watcher_;
};

/// Shows the progress of a stage, "reading graph.json, 43 % in 5 s", on a terminal and after one
/// second only.
class Stage {
 public:
  /// `done` counts in the unit of `total` and must outlive this object. `total` 0: the amount of
  /// work is unknown, and only the time is shown.
  explicit Stage(std::string what, const std::atomic<std::size_t>* done = nullptr,
                 std::size_t total = 0);

 private:
  Progress progress_;
};

/// A Stage whose line and fraction done (0 to 1) are updated by the computation.
class ProgressStage {
 public:
  explicit ProgressStage(std::string first);
  void update(std::string_view line, double done);

 private:
  std::mutex mutex_;
  std::string line_;
  double done_ = 0.0;
  Progress progress_;  ///< last, because its thread reads the others
};

Watch stages(std::string what);

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
