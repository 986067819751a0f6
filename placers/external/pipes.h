/// Tools for running another program: ends of pipes, and a child with its supervisor.
#pragma once
#include <sys/wait.h>

#include <array>
#include <chrono>
#include <csignal>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "placers/external/supervisor.h"

namespace baechi::external {
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

}  // namespace baechi::external
