#include "placers/external/child_process.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/landlock.h>
#include <poll.h>
#include <pthread.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <system_error>

#include "sim/error.h"

namespace baechi::external {
namespace {

// The functions from here to supervise() run after fork(): no allocation and no locks.

std::int64_t now_ms() {
  timespec now{};
  clock_gettime(CLOCK_MONOTONIC, &now);
  return std::int64_t{now.tv_sec} * 1000 + now.tv_nsec / 1'000'000;
}

/// The file /proc/PID/NAME in `buffer`, as text; "" if there is no such process any more.
std::string_view read_proc(pid_t pid, std::string_view name, std::array<char, 1024>& buffer) {
  std::array<char, 64> path{"/proc/"};
  std::array<char, 16> digits{};
  std::size_t count = 0, at = std::strlen(path.data());
  for (auto rest = static_cast<unsigned>(pid); rest > 0; rest /= 10)
    digits[count++] = static_cast<char>('0' + rest % 10);
  while (count > 0) path[at++] = digits[--count];
  path[at++] = '/';
  name.copy(path.data() + at, name.size());
  const int file = open(path.data(), O_RDONLY | O_CLOEXEC);
  if (file < 0) return {};
  const ssize_t got = read(file, buffer.data(), buffer.size());
  close(file);
  return {buffer.data(), got > 0 ? static_cast<std::size_t>(got) : 0};
}

/// The number at the start of `text`, after blanks; 0 if there is none.
std::uint64_t number(std::string_view text) {
  std::uint64_t value = 0;
  text.remove_prefix(std::min(text.size(), text.find_first_not_of(' ')));
  for (const char c : text) {
    if (c < '0' || c > '9') break;
    value = 10 * value + static_cast<std::uint64_t>(c - '0');
  }
  return value;
}

/// The parent of `pid`, 0 if unknown; sets `resident` to its resident bytes.
pid_t parent_of(pid_t pid, std::uint64_t* resident = nullptr) {
  std::array<char, 1024> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): read fills it
  std::string_view text = read_proc(pid, "stat", buffer);
  const std::size_t name_end = text.rfind(')');  // "PID (NAME) STATE PPID ...", NAME is free
  if (name_end == std::string_view::npos) return 0;
  text.remove_prefix(name_end);
  constexpr std::size_t parent = 2, pages = 22;  // field numbers, counted after the name
  pid_t found = 0;
  for (std::size_t field = 0; field <= pages; ++field) {
    if (field == parent) found = static_cast<pid_t>(number(text));
    if (field == pages && resident != nullptr)
      *resident = number(text) * static_cast<std::uint64_t>(sysconf(_SC_PAGESIZE));
    const std::size_t blank = text.find(' ');
    if (blank == std::string_view::npos) break;
    text.remove_prefix(blank + 1);
  }
  return found;
}

/// The proportional set size of `pid` (bytes shared by n processes count 1/n); `resident` if
/// unknown.
std::uint64_t proportional_bytes(pid_t pid, std::uint64_t resident) {
  std::array<char, 1024> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init): read fills it
  const std::string_view text = read_proc(pid, "smaps_rollup", buffer);
  const std::size_t at = text.find("\nPss:");
  return at == std::string_view::npos ? resident : number(text.substr(at + 5)) * 1024;
}

bool descends_from(pid_t pid, pid_t ancestor) {
  for (int depth = 0; pid > 1 && depth < 1000; ++depth) {
    pid = parent_of(pid);
    if (pid == ancestor) return true;
  }
  return false;
}

/// Calls act(pid) for every descendant of this process.
template <class Act>
void each_descendant(Act&& act) {
  struct Entry {  // as getdents64(2) gives it
    std::uint64_t inode;
    std::int64_t next;
    std::uint16_t size;
    unsigned char type;
    char name[1];
  };
  const pid_t self = getpid();
  const int folder = open("/proc", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (folder < 0) return;
  alignas(Entry) std::array<char, 16384> buffer;  // NOLINT(cppcoreguidelines-pro-type-member-init)
  while (true) {
    const auto got = syscall(SYS_getdents64, folder, buffer.data(), buffer.size());
    if (got <= 0) break;
    for (std::int64_t at = 0; at < got;) {
      const auto* entry = reinterpret_cast<const Entry*>(buffer.data() + at);
      at += entry->size;
      const auto pid = static_cast<pid_t>(number(entry->name));
      if (pid > 1 && descends_from(pid, self)) act(pid);
    }
  }
  close(folder);
}

void lower(__rlimit_resource_t resource, std::size_t most) {
  rlimit limit{};
  if (getrlimit(resource, &limit) != 0) return;
  limit.rlim_max = std::min<rlim_t>(limit.rlim_max, most);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(resource, &limit);
}

void report(int to, Report::Event event, int value) {
  const Report message{event, value};
  while (write(to, &message, sizeof message) == -1 && errno == EINTR) {
  }
}

[[noreturn]] void become_program(const Start& start, pid_t supervisor) {
  setpgid(0, 0);
  prctl(PR_SET_PDEATHSIG, static_cast<unsigned long>(SIGKILL), 0UL, 0UL, 0UL);
  if (getppid() != supervisor) _exit(127);
  lower(RLIMIT_DATA, start.limits.memory);
  lower(RLIMIT_FSIZE, start.limits.file_size);
  lower(RLIMIT_NOFILE, start.limits.open_files);
  lower(RLIMIT_CORE, 0);
  for (const int signal : {SIGPIPE, SIGINT, SIGTERM, SIGXFSZ, SIGHUP, SIGQUIT})
    std::signal(signal, SIG_DFL);
  dup2(start.in, STDIN_FILENO);
  dup2(start.out, STDOUT_FILENO);
  dup2(start.err, STDERR_FILENO);
  sigset_t none;
  sigemptyset(&none);
  pthread_sigmask(SIG_SETMASK, &none, nullptr);
  if (start.rules < 0 || enter_sandbox(start.rules)) execve(start.path, start.argv, environ);
  report(start.reports, Report::Event::not_started, errno);
  _exit(127);
}

/// Closes every file except the standard streams and those of `start`, which the program does not
/// inherit.
void close_others(const Start& start) {
  std::array<int, 6> keep{start.in,       start.out,     start.err,
                          start.lifeline, start.reports, std::max(start.rules, start.in)};
  std::ranges::sort(keep);
  unsigned from = 3;
  for (const int fd : keep) {
    const auto here = static_cast<unsigned>(fd);
    if (here > from) syscall(SYS_close_range, from, here - 1, 0U);
    from = std::max(from, here + 1);
  }
  syscall(SYS_close_range, from, ~0U, 0U);
}

/// Reaps the children that have ended. If `program` is one of them, reports it and sets it to 0.
/// False if no child is left.
bool reap(pid_t& program, int reports) {
  while (true) {
    int status = 0;
    const pid_t ended = waitpid(-1, &status, WNOHANG);
    if (ended == -1 && errno == ECHILD) return false;
    if (ended <= 0) return true;
    if (ended != program) continue;
    report(reports, Report::Event::ended, status);
    program = 0;
  }
}

/// Whether the descendants are within the limits; reports an exceeded one.
bool within_limits(const Start& start) {
  std::uint64_t resident = 0;
  std::size_t count = 0;
  each_descendant([&](pid_t pid) {
    std::uint64_t bytes = 0;
    parent_of(pid, &bytes);
    resident += bytes;
    ++count;
  });
  if (count > start.limits.processes) {
    report(start.reports, Report::Event::too_many, 0);
    return false;
  }
  if (resident <= start.limits.memory) return true;
  resident = 0;  // pages that several processes share were counted several times
  each_descendant([&](pid_t pid) {
    std::uint64_t bytes = 0;
    parent_of(pid, &bytes);
    resident += proportional_bytes(pid, bytes);
  });
  if (resident <= start.limits.memory) return true;
  report(start.reports, Report::Event::out_of_memory, 0);
  return false;
}

/// Kills until no descendant is left: orphans become children of this process, the subreaper. Gives
/// up after 10 s on a process that the system cannot end.
void end_all(pid_t& program, int reports) {
  const std::int64_t deadline = now_ms() + 10'000;
  if (program > 0) kill(-program, SIGKILL);
  while (reap(program, reports) && now_ms() < deadline) {
    each_descendant([](pid_t pid) { kill(pid, SIGKILL); });
    poll(nullptr, 0, 1);
  }
}

[[noreturn]] void supervise(const Start& start) {
  setpgid(0, 0);  // Ctrl-C on the terminal goes to the caller alone
  close_others(start);
  prctl(PR_SET_CHILD_SUBREAPER, 1UL, 0UL, 0UL, 0UL);
  sigset_t child;
  sigemptyset(&child);
  sigaddset(&child, SIGCHLD);
  const int ends = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
  const pid_t self = getpid();
  pid_t program = fork();
  if (program == 0) become_program(start, self);
  if (program < 0) {
    report(start.reports, Report::Event::not_started, errno);
    _exit(0);
  }
  for (const int fd : {start.in, start.out, start.err}) close(fd);
  constexpr std::int64_t least_pause = 50;  // ms between two checks of the limits
  std::int64_t pause = 5;
  while (true) {
    std::array<pollfd, 2> waiting{{{start.lifeline, POLLIN, 0}, {ends, POLLIN, 0}}};
    poll(waiting.data(), waiting.size(), static_cast<int>(pause));
    signalfd_siginfo ignored{};
    while (read(ends, &ignored, sizeof ignored) > 0) {
    }
    reap(program, start.reports);
    if (waiting[0].revents != 0) break;
    const std::int64_t begin = now_ms();
    if (!within_limits(start)) break;
    pause = std::max(least_pause, 20 * (now_ms() - begin));
  }
  end_all(program, start.reports);
  _exit(0);
}

[[noreturn]] void no_more(int error, const char* what) {
  throw std::system_error(error, std::generic_category(), what);
}

}  // namespace

pid_t start_supervisor(const Start& start) {
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &before);  // no handler of ours runs in the new process
  const pid_t supervisor = fork();
  if (supervisor == 0) supervise(start);
  const int error = errno;
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  if (supervisor < 0) throw std::system_error(error, std::generic_category(), "fork");
  return supervisor;
}

void Fd::close() {
  if (fd_ >= 0) ::close(std::exchange(fd_, -1));
}

void Fd::stop_blocking() { fcntl(fd_, F_SETFL, fcntl(fd_, F_GETFL) | O_NONBLOCK); }

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

namespace {

namespace fs = std::filesystem;

/// landlock_ruleset_attr as of version 6, which older headers lack.
struct RulesetAttributes {
  std::uint64_t files = 0, net = 0, scoped = 0;
};

// All rights except to run programs and to list folders, which are never restricted.
constexpr std::uint64_t of_one_file = (1U << 1U) | (1U << 2U) | (1U << 14U);  // write, read, cut
constexpr std::uint64_t of_folders = 0x3ff0;  // remove, make, move between folders
constexpr std::uint64_t signals = 1U << 1U;   // scoped: outside of the sandbox

long version() {
  return syscall(SYS_landlock_create_ruleset, nullptr, 0, LANDLOCK_CREATE_RULESET_VERSION);
}

/// The rights of `all` that version `v` supports: moving since version 2, truncating since 3.
std::uint64_t known(std::uint64_t all, long v) {
  if (v < 3) all &= ~std::uint64_t{1U << 14U};
  if (v < 2) all &= ~std::uint64_t{1U << 13U};
  return all;
}

/// Keeps all rights at and below `path`.
void allow(int rules, const fs::path& path, long v) {
  const int at = open(path.c_str(), O_PATH | O_CLOEXEC | O_NOFOLLOW);
  if (at < 0) return;
  const bool folder = fs::is_directory(fs::symlink_status(path));
  landlock_path_beneath_attr rule{};
  rule.allowed_access = known(folder ? of_one_file | of_folders : of_one_file, v);
  rule.parent_fd = at;
  syscall(SYS_landlock_add_rule, rules, LANDLOCK_RULE_PATH_BENEATH, &rule, 0U);
  close(at);
}

}  // namespace

Guard kernel_guard() {
  const long v = version();
  return v < 1 ? Guard::nothing : v < 6 ? Guard::files : Guard::files_and_signals;
}

Fd sandbox_without(const std::string& hidden) {
  const long v = version();
  if (hidden.empty() || v < 1) return Fd();
  std::error_code wrong;
  const fs::path path = fs::canonical(hidden, wrong);
  if (wrong) throw InputError(fmt::format("{}: {}", hidden, wrong.message()));
  const RulesetAttributes attributes{.files = known(of_one_file | of_folders, v),
                                     .scoped = v < 6 ? 0 : signals};
  const std::size_t size = v < 4   ? sizeof attributes.files
                           : v < 6 ? 2 * sizeof attributes.files
                                   : sizeof attributes;
  Fd rules(static_cast<int>(syscall(SYS_landlock_create_ruleset, &attributes, size, 0U)));
  // Rules only add rights, so they are added to the siblings of the path at each of its folders.
  for (fs::path inner = path; inner.has_relative_path(); inner = inner.parent_path())
    for (const auto& entry : fs::directory_iterator(inner.parent_path(), wrong))
      if (entry.path() != inner && !entry.is_symlink(wrong)) allow(rules.number(), entry.path(), v);
  return rules;
}

bool enter_sandbox(int rules) {
  return prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) == 0 &&
         syscall(SYS_landlock_restrict_self, rules, 0U) == 0;
}

namespace {

using Clock = std::chrono::steady_clock;

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
    if (input.empty()) in.write.close();
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

namespace {

constexpr std::size_t tail_kept = 4096;

}  // namespace

struct LineProgram::Running {
  Running(const std::string& path, const std::vector<std::string>& args, const Limits& limits)
      : in(make_pipe()),
        out(make_pipe()),
        err(make_pipe()),
        child(path, args, in, out, err, limits) {
    in.read.close();
    out.write.close();
    err.write.close();
    for (Fd* fd : {&in.write, &out.read, &err.read}) fd->stop_blocking();
  }

  Pipe in, out, err;
  Child child;
  std::string written, error_tail;  // output that has not been read yet
};

LineProgram::LineProgram(std::string path, std::vector<std::string> args, ProcessLimits limits)
    : path_(std::move(path)), args_(std::move(args)), limits_(std::move(limits)) {}

LineProgram::~LineProgram() = default;

ProcessResult LineProgram::ask(std::string_view line) {
  using Clock = std::chrono::steady_clock;
  const NoSigpipe no_sigpipe;
  if (!running_) running_ = std::make_unique<Running>(path_, args_, limits_.resources);
  // An early return or exception ends the program, because its next line would answer the wrong
  // problem.
  std::unique_ptr<Running> now = std::move(running_);
  // A line after the last answer would be taken for the next answer.
  pollfd stray{now->out.read.number(), POLLIN, 0};
  while (now->out.read.open() && now->written.size() <= limits_.output && poll(&stray, 1, 0) > 0 &&
         (stray.revents & POLLIN) != 0)
    read_some(now->out.read, now->written);
  if (!now->written.empty())
    throw InputError(fmt::format("{}: wrote more than one line for one problem", path_));
  const Clock::time_point deadline =
      Clock::now() + std::min<std::chrono::nanoseconds>(limits_.time, std::chrono::years(1));
  std::string question(line);
  question += '\n';
  std::string_view left_to_write = question;
  ProcessResult result;
  bool ended = false;
  std::size_t searched = 0, end = std::string::npos;
  // An answer may come before the program has read all of its input; the rest is still written.
  const auto writes = [&] { return !left_to_write.empty() && now->in.write.open(); };
  while (end == std::string::npos || (writes() && !ended)) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - Clock::now()).count();
    if (left <= 0) result.stopped = Stopped::time;
    if (now->written.size() > limits_.output) result.stopped = Stopped::output;
    if (result.stopped != Stopped::no || (ended && !now->out.read.open())) break;
    std::array<pollfd, 4> waiting{{{writes() ? now->in.write.number() : -1, POLLOUT, 0},
                                   {now->out.read.number(), POLLIN, 0},
                                   {now->err.read.number(), POLLIN, 0},
                                   {ended ? -1 : now->child.reports(), POLLIN, 0}}};
    poll(waiting.data(), waiting.size(), static_cast<int>(std::min<std::int64_t>(left, 60'000)));
    if (waiting[0].revents != 0) write_some(now->in.write, left_to_write);
    if (waiting[1].revents != 0) read_some(now->out.read, now->written);
    if (waiting[2].revents != 0) read_some(now->err.read, now->error_tail);
    keep_tail(now->error_tail, tail_kept);
    if (end == std::string::npos) end = now->written.find('\n', searched);
    searched = now->written.size();
    if (waiting[3].revents == 0 || (end != std::string::npos && !writes())) continue;
    const std::optional<Report> report = now->child.report();
    if (!report) throw std::runtime_error(fmt::format("{}: its supervisor was killed", path_));
    if (report->event == Report::Event::not_started)
      throw InputError(fmt::format("{}: {}", path_, why_not_started(path_, report->value)));
    if (report->event == Report::Event::out_of_memory) result.stopped = Stopped::memory;
    if (report->event == Report::Event::too_many) result.stopped = Stopped::processes;
    ended = true;
    if (WIFSIGNALED(report->value)) result.signal = WTERMSIG(report->value);
    if (WIFEXITED(report->value)) result.exit_code = WEXITSTATUS(report->value);
  }
  result.error_tail = now->error_tail;
  if (end == std::string::npos) return result;
  result.out = now->written.substr(0, end);
  now->written.erase(0, end + 1);
  now->error_tail.clear();
  if (!ended) running_ = std::move(now);
  return result;
}

}  // namespace baechi::external
