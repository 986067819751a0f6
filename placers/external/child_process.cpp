#include "placers/external/child_process.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>
#include <utility>
#include <vector>

#include "sim/error.h"

namespace baechi {
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

/// A running program, in a process group of its own; killed with the group if still there when this
/// ends.
class Child {
 public:
  Child(const std::string& path, std::span<const std::string> args, int in, int out, int err) {
    std::vector<std::string> words{path};
    words.insert(words.end(), args.begin(), args.end());
    std::vector<char*> argv;
    argv.reserve(words.size() + 1);
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);

    posix_spawn_file_actions_t files;
    posix_spawn_file_actions_init(&files);
    posix_spawn_file_actions_adddup2(&files, in, STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&files, out, STDOUT_FILENO);
    posix_spawn_file_actions_adddup2(&files, err, STDERR_FILENO);
    posix_spawnattr_t attributes;
    posix_spawnattr_init(&attributes);
    sigset_t none;
    sigemptyset(&none);
    sigset_t usual;
    sigemptyset(&usual);
    sigaddset(&usual, SIGPIPE);
    sigaddset(&usual, SIGINT);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setsigdefault(&attributes, &usual);
    posix_spawnattr_setpgroup(&attributes, 0);
    posix_spawnattr_setflags(
        &attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGMASK | POSIX_SPAWN_SETSIGDEF);
    const int error = posix_spawn(&pid_, path.c_str(), &files, &attributes, argv.data(), environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&files);
    if (error != 0) {
      pid_ = 0;
      throw InputError(fmt::format("{}: {}", path, why_not_started(path, error)));
    }
  }
  ~Child() {
    if (pid_ == 0) return;
    kill(-pid_, SIGKILL);
    while (waitpid(pid_, nullptr, 0) == -1 && errno == EINTR) {
    }
  }
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  /// Whether it has ended; then `status` is waitpid's.
  bool ended(int& status) {
    siginfo_t info{};
    const auto id = static_cast<id_t>(pid_);
    if (waitid(P_PID, id, &info, WEXITED | WNOHANG | WNOWAIT) != 0 || info.si_pid != pid_)
      return false;
    kill(-pid_, SIGKILL);  // what it left running; while it is not reaped, its number is its own
    while (waitpid(pid_, &status, 0) == -1 && errno == EINTR) {
    }
    pid_ = 0;
    return true;
  }

 private:
  pid_t pid_ = 0;
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
                          std::string_view input, std::chrono::nanoseconds time_limit,
                          std::size_t most_output) {
  constexpr std::size_t tail = 4096;
  const NoSigpipe no_sigpipe;
  const Clock::time_point deadline =
      Clock::now() + std::min<std::chrono::nanoseconds>(time_limit, std::chrono::years(1));
  Pipe in = make_pipe(), out = make_pipe(), err = make_pipe();
  Child child(path, args, in.read.number(), out.write.number(), err.write.number());
  in.read.close();
  out.write.close();
  err.write.close();
  for (Fd* fd : {&in.write, &out.read, &err.read}) fd->stop_blocking();
  if (input.empty()) in.write.close();

  ProcessResult result;
  for (int status = 0;;) {
    if (!out.read.open() && !err.read.open() && child.ended(status)) {
      if (WIFSIGNALED(status)) result.signal = WTERMSIG(status);
      if (WIFEXITED(status)) result.exit_code = WEXITSTATUS(status);
      break;
    }
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) {
      result.timed_out = true;
      break;
    }
    std::array<pollfd, 3> waiting{{{in.write.number(), POLLOUT, 0},
                                   {out.read.number(), POLLIN, 0},
                                   {err.read.number(), POLLIN, 0}}};  // poll skips those closed
    // A program that closed its output has no event to wait for: look again soon.
    const bool silent = !out.read.open() && !err.read.open();
    const auto patience = std::min<std::int64_t>(left, silent ? 1 : 60'000);
    poll(waiting.data(), waiting.size(), static_cast<int>(patience));
    if (waiting[0].revents != 0) write_some(in.write, input);
    if (waiting[1].revents != 0) read_some(out.read, result.out);
    if (waiting[2].revents != 0) read_some(err.read, result.error_tail);
    keep_tail(result.error_tail, tail);
    if (result.out.size() > most_output) {
      result.too_much = true;
      break;
    }
  }
  return result;
}

}  // namespace baechi
