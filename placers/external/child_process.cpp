#include "placers/external/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <optional>
#include <stdexcept>
#include <system_error>
#include <utility>
#include <vector>

#include "sim/error.h"

namespace baechi::external {
namespace {

using Clock = std::chrono::steady_clock;

[[noreturn]] void fail(int error, const char* what) {
  throw std::system_error(error, std::generic_category(), what);
}

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
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  bool open() const { return fd_ >= 0; }
  int number() const { return fd_; }
  void stop_blocking() { fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK); }

 private:
  int fd_;
};

struct Pipe {
  Fd read, write;
};

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) fail(errno, "pipe");
  return {Fd(ends[0]), Fd(ends[1])};
}

/// Writing to a program that has closed its input raises SIGPIPE, which would end us: while this
/// lives, this thread gets EPIPE alone.
class NoSigpipe {
 public:
  NoSigpipe() {
    sigemptyset(&pipe_);
    sigaddset(&pipe_, SIGPIPE);
    sigset_t pending;
    sigpending(&pending);
    was_pending_ = sigismember(&pending, SIGPIPE) == 1;
    pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
  }
  ~NoSigpipe() {
    const timespec at_once{};
    if (!was_pending_)
      while (sigtimedwait(&pipe_, nullptr, &at_once) == -1 && errno == EINTR) {
      }
    pthread_sigmask(SIG_SETMASK, &before_, nullptr);
  }
  NoSigpipe(const NoSigpipe&) = delete;
  NoSigpipe& operator=(const NoSigpipe&) = delete;

 private:
  sigset_t pipe_{}, before_{};
  bool was_pending_ = false;
};

std::string why_not_started(const std::string& path, int error) {
  std::error_code ignored;
  if (std::filesystem::is_directory(path, ignored)) return "is a folder, not a program";
  if (error == ENOENT && std::filesystem::exists(path, ignored))
    return "cannot be run: the interpreter that its first line names was not found";
  if (error == ENOENT) return "no such file";
  if (error == EACCES) return "is not executable (chmod +x)";
  if (error == ENOEXEC)
    return "is not a program: a script's first line must be like #!/usr/bin/env python3";
  return fmt::format("cannot be run: {}", std::generic_category().message(error));
}

/// A running program and its supervisor; both, and all that the program started, are ended with
/// this.
class Child {
 public:
  Child(const std::string& path, std::span<const std::string> args, const Pipe& in, const Pipe& out,
        const Pipe& err, const Limits& limits)
      : lifeline_(make_pipe()), reports_(make_pipe()) {
    std::vector<std::string> words{path};
    words.insert(words.end(), args.begin(), args.end());
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    supervisor_ = start_supervisor({.path = path.c_str(),
                                    .argv = argv.data(),
                                    .in = in.read.number(),
                                    .out = out.write.number(),
                                    .err = err.write.number(),
                                    .lifeline = lifeline_.read.number(),
                                    .reports = reports_.write.number(),
                                    .limits = limits});
    lifeline_.read.close();
    reports_.write.close();
  }
  ~Child() {
    lifeline_.write.close();
    while (waitpid(supervisor_, nullptr, 0) == -1 && errno == EINTR) {
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  int reports() const { return reports_.read.number(); }
  /// The next report; to be asked for once there is something to read. Nothing, if the supervisor
  /// itself has ended.
  std::optional<Report> report() {
    Report report;
    ssize_t got = 0;
    while ((got = read(reports(), &report, sizeof report)) == -1 && errno == EINTR) {
    }
    return got == sizeof report ? std::optional(report) : std::nullopt;
  }

 private:
  Pipe lifeline_, reports_;
  pid_t supervisor_ = 0;
};

/// Reads what is there into `text`; closes `fd` at its end.
void read_some(Fd& fd, std::string& text) {
  std::array<char, 65536> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): read fills it
  const ssize_t n = read(fd.number(), buffer.data(), buffer.size());
  if (n > 0) text.append(buffer.data(), static_cast<std::size_t>(n));
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) fd.close();
}

/// Writes what the pipe takes of `text` and drops it; closes `fd` at its end, or if nobody reads.
void write_some(Fd& fd, std::string_view& text) {
  const ssize_t n = write(fd.number(), text.data(), text.size());
  if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
  if (text.empty() || (n < 0 && errno != EAGAIN && errno != EINTR)) fd.close();
}

void keep_tail(std::string& text, std::size_t most) {
  if (text.size() > 2 * most) text.erase(0, text.size() - most);
}

}  // namespace

ProcessResult run_process(const std::string& path, std::span<const std::string> args,
                          std::string_view input, const ProcessLimits& limits) {
  constexpr std::size_t tail = 4096;
  const NoSigpipe no_sigpipe;
  const Clock::time_point deadline =
      Clock::now() + std::min<std::chrono::nanoseconds>(limits.time, std::chrono::years(1));
  Pipe in = make_pipe(), out = make_pipe(), err = make_pipe();
  Child child(path, args, in, out, err, limits.resources);
  in.read.close();
  out.write.close();
  err.write.close();
  for (Fd* fd : {&in.write, &out.read, &err.read}) fd->stop_blocking();
  if (input.empty()) in.write.close();

  ProcessResult result;
  bool ended = false;
  while (!ended || out.read.open() || err.read.open()) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      result.stopped = Stopped::time;
      break;
    }
    std::array<pollfd, 4> waiting{{{in.write.number(), POLLOUT, 0},
                                   {out.read.number(), POLLIN, 0},
                                   {err.read.number(), POLLIN, 0},
                                   {ended ? -1 : child.reports(), POLLIN, 0}}};  // poll skips -1
    poll(waiting.data(), waiting.size(), static_cast<int>(std::min<std::int64_t>(left, 60'000)));
    if (waiting[0].revents != 0) write_some(in.write, input);
    if (waiting[1].revents != 0) read_some(out.read, result.out);
    if (waiting[2].revents != 0) read_some(err.read, result.error_tail);
    keep_tail(result.error_tail, tail);
    if (result.out.size() > limits.output) {
      result.stopped = Stopped::output;
      break;
    }
    if (waiting[3].revents == 0) continue;
    const std::optional<Report> report = child.report();
    if (!report) throw std::runtime_error(fmt::format("{}: its supervisor was killed", path));
    if (report->event == Report::Event::not_started)
      throw InputError(fmt::format("{}: {}", path, why_not_started(path, report->value)));
    if (report->event == Report::Event::out_of_memory) result.stopped = Stopped::memory;
    if (report->event == Report::Event::too_many) result.stopped = Stopped::processes;
    if (result.stopped != Stopped::no) break;
    ended = true;
    if (WIFSIGNALED(report->value)) result.signal = WTERMSIG(report->value);
    if (WIFEXITED(report->value)) result.exit_code = WEXITSTATUS(report->value);
  }
  return result;
}

}  // namespace baechi::external
