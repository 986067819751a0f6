#include "placers/external/child_process.h"

#include <fmt/format.h>
#include <poll.h>

#include <algorithm>
#include <array>
#include <stdexcept>

#include "placers/external/pipes.h"
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

}  // namespace baechi::external
