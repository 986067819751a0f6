/// Runs another program under limits: text in, text out.
#pragma once
#include <sys/types.h>
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace baechi::external {

/// Limits of a program and all processes that it starts.
struct Limits {
  std::size_t memory = std::size_t{4} << 30U;  ///< bytes: private in each process, resident in all
  std::size_t processes = 256;                 ///< at any time, the program itself included
  std::size_t file_size = std::size_t{1} << 30U;  ///< bytes of each file that is written
  std::size_t open_files = 1024;                  ///< in each process
  std::string hidden{};  ///< a file that it cannot read or write (sandbox.h); "": none
};

/// The supervisor's reports, through a pipe: at most one report of each event, the cause first.
struct Report {
  enum class Event : int {
    not_started,    ///< `value` is the errno of execve
    ended,          ///< `value` is the status that waitpid gave
    out_of_memory,  ///< all processes together went over Limits::memory
    too_many,       ///< there were more processes than Limits::processes
  };
  Event event{};
  int value = 0;
};

/// Data of the supervisor, prepared before the fork. After a fork only async-signal-safe functions
/// may be called, because other threads may have held any lock.
struct Start {
  const char* path = nullptr;
  char* const* argv = nullptr;
  int in = -1, out = -1, err = -1;  ///< become the program's standard streams
  int lifeline = -1;  ///< the read end of a pipe; once its write end closes (by the caller or its
                      ///< death), all processes are ended
  int rules = -1;     ///< of sandbox_without(); -1: none
  int reports = -1;   ///< the write end of a pipe, which takes one Report at a time
  Limits limits{};
};

/// Starts a supervisor, a child of this process, which starts the program. Returns its process id.
/// The supervisor ends once `lifeline` is closed and none of its descendants is left; the caller
/// must wait for it. Throws std::system_error if no process can be created.
pid_t start_supervisor(const Start& start);

/// One end of a pipe.
class Fd {
 public:
  explicit Fd(int fd = -1) : fd_(fd) {}
  Fd(Fd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Fd& operator=(Fd&& other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Fd() { close(); }
  void close();
  bool open() const { return fd_ >= 0; }
  int number() const { return fd_; }
  void stop_blocking();

 private:
  int fd_;
};

struct Pipe {
  Fd read, write;
};
Pipe make_pipe();

/// Blocks SIGPIPE in this thread, so that a write to a program that has closed its input fails with
/// EPIPE alone.
class NoSigpipe {
 public:
  NoSigpipe();
  ~NoSigpipe();
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

/// A running program and its supervisor. The destructor ends both and all processes that the
/// program started.
class Child {
 public:
  Child(const std::string& path, std::span<const std::string> args, const Pipe& in, const Pipe& out,
        const Pipe& err, const Limits& limits);
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int reports() const { return reports_.read.number(); }
  /// The next report; call once reports() is readable. Nothing if the supervisor itself has ended.
  std::optional<Report> report();

 private:
  Pipe lifeline_, reports_;
  pid_t supervisor_ = 0;
};

/// "no such file", from the errno of execve.
std::string why_not_started(const std::string& path, int error);

/// Reads the available bytes into `text`; closes `fd` at its end.
void read_some(Fd& fd, std::string& text);

/// Writes as much of `text` as the pipe takes and removes the written part; closes `fd` if the
/// reader has closed its end.
void write_some(Fd& fd, std::string_view& text);

/// Removes the beginning of a text that is much longer than `most`.
void keep_tail(std::string& text, std::size_t most);

/// What this kernel's Landlock can restrict.
enum class Guard { nothing, files, files_and_signals };
Guard kernel_guard();

/// Rules for enter_sandbox(): everything that exists now is accessible except `hidden`, and the
/// folders above `hidden` cannot be changed. Not open if `hidden` is "" or there is no Landlock.
/// Another copy of the file stays readable. Throws InputError if `hidden` has no real path.
Fd sandbox_without(const std::string& hidden);

/// Restricts the calling thread and all that it starts by the rules; they also cannot trace
/// processes outside. Async-signal-safe. False if the kernel refuses.
bool enter_sandbox(int rules);

struct ProcessLimits {
  std::chrono::nanoseconds time{};             ///< from start to end, wall-clock
  std::size_t output = std::size_t{1} << 30U;  ///< bytes of standard output
  Limits resources{};
};

/// The limit, if any, for which the program was killed.
enum class Stopped { no, time, output, memory, processes };

struct ProcessResult {
  Stopped stopped = Stopped::no;
  int exit_code = 0;       ///< meaningful if neither `stopped` nor `signal`
  int signal = 0;          ///< the signal that ended it, or 0
  std::string out;         ///< standard output
  std::string error_tail;  ///< the last 4 KiB or more of its standard error
};

/// Runs the program at `path` (not searched for in PATH) with `input` on its standard input, which
/// it need not read. When this returns or throws, the program and all its descendants have ended;
/// they also end if this process is killed. May be called from several threads at once. Throws
/// InputError, as "path: why", if the program cannot be started; std::system_error if this process
/// cannot create more processes or pipes.
ProcessResult run_process(const std::string& path, std::span<const std::string> args,
                          std::string_view input, const ProcessLimits& limits);

/// Starts with the first ask(). As with run_process(), the program and all its descendants end with
/// this object, or with this process, however the process ends. ProcessLimits::time and ::output
/// apply to each answer, the other limits to the whole life of the program.
class LineProgram {
 public:
  LineProgram(std::string path, std::vector<std::string> args, ProcessLimits limits);
  ~LineProgram();
  LineProgram(const LineProgram&) = delete;
  LineProgram& operator=(const LineProgram&) = delete;

  /// Writes `line`, which has no line break, and reads the next line into ProcessResult::out. If
  /// there is no answer, the result has the reason: the exceeded limit, or how the program ended.
  /// Status 0 without an answer is a failure, too. A program that has ended is started again by the
  /// next call. Throws InputError, as "path: why", if the program cannot be started, or if it wrote
  /// more than one line for the last call. Not thread-safe.
  ProcessResult ask(std::string_view line);

 private:
  struct Running;
  std::string path_;
  std::vector<std::string> args_;
  ProcessLimits limits_;
  std::unique_ptr<Running> running_;
};

}  // namespace baechi::external
