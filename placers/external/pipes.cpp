#include "placers/external/pipes.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <pthread.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "placers/external/sandbox.h"

namespace baechi::external {
namespace {

[[noreturn]] void no_more(int error, const char* what) {
  throw std::system_error(error, std::generic_category(), what);
}

}  // namespace

void Fd::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void Fd::stop_blocking() {
  fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK);
}

Pipe make_pipe() {
  std::array<int, 2> ends{};
  if (pipe2(ends.data(), O_CLOEXEC) != 0) no_more(errno, "pipe");
  return {Fd(ends[0]), Fd(ends[1])};
}

NoSigpipe::NoSigpipe() {
  sigemptyset(&pipe_);
  sigaddset(&pipe_, SIGPIPE);
  sigset_t pending;
  sigpending(&pending);
  was_pending_ = sigismember(&pending, SIGPIPE) == 1;
  pthread_sigmask(SIG_BLOCK, &pipe_, &before_);
}

NoSigpipe::~NoSigpipe() {
  const timespec at_once{};
  if (!was_pending_)
    while (sigtimedwait(&pipe_, nullptr, &at_once) == -1 && errno == EINTR) {
    }
  pthread_sigmask(SIG_SETMASK, &before_, nullptr);
}

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

Child::Child(const std::string& path, std::span<const std::string> args, const Pipe& in,
             const Pipe& out, const Pipe& err, const Limits& limits)
    : lifeline_(make_pipe()), reports_(make_pipe()) {
  std::vector<std::string> words{path};
  words.insert(words.end(), args.begin(), args.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  const Fd rules = sandbox_without(limits.hidden);
  supervisor_ = start_supervisor({.path = path.c_str(),
                                  .argv = argv.data(),
                                  .in = in.read.number(),
                                  .out = out.write.number(),
                                  .err = err.write.number(),
                                  .lifeline = lifeline_.read.number(),
                                  .rules = rules.number(),
                                  .reports = reports_.write.number(),
                                  .limits = limits});
  lifeline_.read.close();
  reports_.write.close();
}

Child::~Child() {
  lifeline_.write.close();
  while (waitpid(supervisor_, nullptr, 0) == -1 && errno == EINTR) {
  }
}

std::optional<Report> Child::report() {
  Report report;
  ssize_t got = 0;
  while ((got = read(reports(), &report, sizeof report)) == -1 && errno == EINTR) {
  }
  return got == sizeof report ? std::optional(report) : std::nullopt;
}

void read_some(Fd& fd, std::string& text) {
  std::array<char, 65536> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): read fills it
  const ssize_t n = read(fd.number(), buffer.data(), buffer.size());
  if (n > 0) text.append(buffer.data(), static_cast<std::size_t>(n));
  if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) fd.close();
}

void write_some(Fd& fd, std::string_view& text) {
  const ssize_t n = write(fd.number(), text.data(), text.size());
  if (n > 0) text.remove_prefix(static_cast<std::size_t>(n));
  if (n < 0 && errno != EAGAIN && errno != EINTR) fd.close();
}

void keep_tail(std::string& text, std::size_t most) {
  if (text.size() > 2 * most) text.erase(0, text.size() - most);
}

}  // namespace baechi::external
