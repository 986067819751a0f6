#include "placers/external/child_process.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "placers/external/sandbox.h"
#include "sim/error.h"

namespace baechi::external {
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
