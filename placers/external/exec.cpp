#include <cmath>
#include <mutex>

#include "placers/external/child_process.h"
#include "placers/files/placement_file.h"
#include "placers/interface/colocation.h"
#include "placers/interface/placer.h"
#include "sim/text.h"
#include "traces/format/json_string.h"
#include "traces/format/trace_file.h"

namespace baechi {
namespace external {
namespace {

/// The exit status of a placer that found no placement.
constexpr int infeasible_status = 3;

/// What the placer reads: the trace, the cluster, how the step will be executed, and the seed.
/// A persistent program also reads the problem's `id`.
std::string problem_json(const Problem& p, std::uint64_t seed, std::optional<std::int64_t> id) {
  std::string json = fmt::format(
      "{{\"format\": \"baechi-problem\", \"version\": 1,{}\n \"trace\": {},\n \"cluster\": "
      "{{\"devices\": [",
      id ? fmt::format(" \"id\": {},", *id) : "", trace_json({.graph = p.graph}));
  std::string_view separator;
  for (const DeviceId d : p.cluster.devices()) {
    const Device& device = p.cluster.device(d);
    json += fmt::format("{}\n  {{\"name\": {}, \"kind\": {}, \"memory_bytes\": {}, \"speed\": {}}}",
                        separator, json_string(device.name), json_string(device.kind),
                        device.memory.count, device.speed);
    separator = ",";
  }
  json += "],\n  \"links\": [";
  for (const DeviceId src : p.cluster.devices()) {
    json += index(src) == 0 ? "[" : "],\n   [";
    separator = "";
    for (const DeviceId dst : p.cluster.devices()) {
      const Link& link = p.cluster.link(src, dst);
      json += fmt::format("{}{{\"bandwidth_bytes_per_s\": {}, \"latency_us\": {}}}", separator,
                          link.bandwidth.bytes_per_second, to_us(link.latency));
      separator = ", ";
    }
  }
  const EngineOptions& e = p.engine;
  json += fmt::format(
      "]]}},\n \"engine\": {{\"semantics\": \"{}\", \"transfers\": \"{}\", \"queue\": \"{}\", "
      "\"cache_tensors\": {}, \"overlap\": {}, \"enforce_memory\": {}}},\n \"seed\": {}}}\n",
      to_text(e.semantics), to_text(e.transfers), to_text(e.queue), e.cache_tensors, e.overlap,
      e.enforce_memory, seed);
  return json;
}

/// The last lines of `written`, escaped for display: ": third last line | second last line | last
/// line"; "" if nothing was written.
std::string last_lines(std::string_view written, std::size_t lines) {
  const std::string plain = plain_text(written);
  std::string_view text = plain;
  std::vector<std::string_view> last;
  while (last.size() < lines && !text.empty()) {
    const std::size_t end = text.find_last_not_of(" \r\n\t");
    if (end == std::string_view::npos) break;
    text = text.substr(0, end + 1);
    const std::size_t line_break = text.rfind('\n');
    last.insert(last.begin(),
                text.substr(line_break == std::string_view::npos ? 0 : line_break + 1));
    text = text.substr(0, line_break == std::string_view::npos ? 0 : line_break);
  }
  return last.empty() ? "" : fmt::format(": {}", fmt::join(last, " | "));
}

/// Whether `answer` begins as a JSON object but does not end as one.
bool is_cut_off(std::string_view answer) {
  constexpr std::string_view blank = " \t\r\n";
  const std::size_t first = answer.find_first_not_of(blank);
  return first != std::string_view::npos && answer[first] == '{' &&
         answer[answer.find_last_not_of(blank)] != '}';
}

/// A placer that is an external program in any language. It reads the problem on its standard input
/// and writes a placement file to its standard output; with `persistent`, one problem after
/// another.
class Exec final : public Placer {
 public:
  explicit Exec(Options& o)
      : path_(o.path("path", "the program; `exec:PATH` is the same")),
        args_(read_args(o)),
        time_limit_(o.get("time_limit", Duration(std::chrono::seconds(60)),
                          "after which it is ended, wall-clock")),
        memory_limit_(o.get("memory_limit", Bytes{std::int64_t{4} << 30},
                            "of host memory for it and all it starts, beyond which it is ended")),
        persistent_(o.get("persistent", false,
                          "one process for all problems: each is a line on its input, each answer "
                          "a line on its output")),
        hidden_(o.path("hide",
                       "a file that it and all it starts can neither read nor write; nor can they "
                       "signal other processes; where the kernel has Landlock")) {
    if (path_.empty()) o.mistake("path", "missing: write exec:PATH");
  }

  Placement place(const Problem& p, std::uint64_t seed) const override {
    ProcessLimits limits{.time = time_limit_};
    limits.resources.memory = static_cast<std::size_t>(memory_limit_.count);
    limits.resources.hidden = hidden_;
    if (!persistent_)
      return answer(p, run_process(path_, args_, problem_json(p, seed, {}), limits), {});
    std::unique_ptr<LineProgram> program = take_waiting();
    if (!program) program = std::make_unique<LineProgram>(path_, args_, limits);
    const std::int64_t id = next_id_++;
    std::string problem = problem_json(p, seed, id);
    std::ranges::replace(problem, '\n', ' ');  // in JSON, only between values
    // After an invalid answer the program may be one line behind, so it is ended with `program`.
    try {
      Placement placement = answer(p, program->ask(problem), id);
      put_back(std::move(program));
      return placement;
    } catch (const InfeasibleError&) {
      put_back(std::move(program));
      throw;
    }
  }

 private:
  /// The placement in the program's answer; `id`: of the problem, if the answer must repeat it.
  Placement answer(const Problem& p, const ProcessResult& run,
                   std::optional<std::int64_t> id) const {
    const auto failed = [&](std::string_view what) {
      throw InputError(fmt::format("{}: {}{}", path_, what, last_lines(run.error_tail, 3)));
    };
    switch (run.stopped) {
      case Stopped::no:
        break;
      case Stopped::time:
        failed(fmt::format("still running after {} (option time_limit)", to_text(time_limit_)));
        break;
      case Stopped::output:
        failed("wrote more than 1 GiB and was stopped");
        break;
      case Stopped::memory:
        failed(fmt::format("used more than {} of host memory (option memory_limit)",
                           to_text(memory_limit_)));
        break;
      case Stopped::processes:
        failed(
            fmt::format("had more than {} processes at once", ProcessLimits().resources.processes));
        break;
    }
    if (run.signal != 0)
      failed(fmt::format("ended by signal {} (it may use {} of host memory: option memory_limit)",
                         run.signal, to_text(memory_limit_)));
    if (run.exit_code == infeasible_status)
      throw InfeasibleError(
          fmt::format("{}: no placement found{}", path_, last_lines(run.error_tail, 1)));
    if (run.exit_code != 0) failed(fmt::format("ended with status {}", run.exit_code));
    if (run.out.empty())
      failed(persistent_ ? "ended, or wrote an empty line, in place of an answer"
                         : "wrote nothing to its standard output");
    if (is_cut_off(run.out))
      failed(fmt::format(
          "its answer is cut off: {} bytes that begin with '{{' and do not end with '}}'",
          run.out.size()));
    const std::string where = fmt::format("output of {}", path_);
    try {
      Placement result = parse_placement(run.out, where, p.graph, p.cluster.num_devices(), id);
      require_whole_groups(result, p.graph, where);
      result.detail = plain_text(result.detail);
      return result;
    } catch (const InputError& e) {
      throw InputError(plain_text(e.what()));
    } catch (const InfeasibleError& e) {
      throw InfeasibleError(plain_text(e.what()));
    }
  }

  /// An idle process, or null; there are as many as threads that ask at once.
  std::unique_ptr<LineProgram> take_waiting() const {
    const std::lock_guard lock(waiting_mutex_);
    if (waiting_.empty()) return nullptr;
    std::unique_ptr<LineProgram> program = std::move(waiting_.back());
    waiting_.pop_back();
    return program;
  }
  void put_back(std::unique_ptr<LineProgram> program) const {
    const std::lock_guard lock(waiting_mutex_);
    waiting_.push_back(std::move(program));
  }

  static std::vector<std::string> read_args(Options& o) {
    std::vector<std::string> args;
    const Options::Value* given = o.raw("args", "a list of arguments for the program");
    if (given == nullptr) return args;
    if (given->children.empty() && !given->text.empty()) args.push_back(given->text);
    for (const auto& [key, value] : given->children) {
      if (!key.empty() || !value.children.empty())
        o.mistake("args", "is not a list of texts such as [--fast, '3']");
      args.push_back(value.text);
    }
    return args;
  }

  std::string path_;
  std::vector<std::string> args_;
  Duration time_limit_;
  Bytes memory_limit_;
  bool persistent_;
  std::string hidden_;
  mutable std::atomic<std::int64_t> next_id_ = 1;
  mutable std::mutex waiting_mutex_;
  mutable std::vector<std::unique_ptr<LineProgram>> waiting_;  // idle processes
};

/// A program as an objective. It reads the problem as a line, which it answers with any line, then
/// a line for each placement whose step fits in memory, which it answers with a number.
class ExecObjective final : public Objective {
 public:
  explicit ExecObjective(Options& o)
      : path_(o.path("path", "the program; `exec:PATH` is the same")) {
    if (path_.empty()) o.mistake("path", "missing: write exec:PATH");
  }
  std::unique_ptr<Evaluator> on(const Problem& p) const override {
    return std::make_unique<Calls>(path_, p);
  }

 private:
  class Calls final : public Evaluator {
   public:
    Calls(const std::string& path, const Problem& p)
        : path_(path),
          simulator_(p),
          memory_(make_objective("step_time", Options("step_time"))->on(p)),
          program_(path, {}, {.time = std::chrono::minutes(1)}) {
      std::string problem = problem_json(p, 0, {});
      std::ranges::replace(problem, '\n', ' ');
      ask(problem);
    }
    Score score(const Placement& placement) override {
      const StepResult& step = simulator_.run(placement);
      if (step.oom) return memory_->score(placement);
      std::vector<std::uint32_t> device;
      std::vector<std::int64_t> peaks;
      for (const DeviceId d : placement.device) device.push_back(static_cast<std::uint32_t>(d));
      for (const DeviceUse& use : step.devices) peaks.push_back(use.peak.count);
      const std::string text = ask(fmt::format(
          R"({{"step_time_us": {}, "moved_bytes": {}, "peak_bytes": [{}], "device": [{}]}})",
          to_us(step.makespan), step.moved.count, fmt::join(peaks, ", "), fmt::join(device, ", ")));
      const auto value = parse_number<double>(text);
      constexpr double most = 1e12, ns_per_us = 1e3;
      if (!value || !(*value >= 0.0 && *value <= most))
        throw InputError(fmt::format("{}: answered '{}', not a number from 0 to 1e12", path_,
                                     plain_text(text.substr(0, 60))));
      return {.value = Duration{std::llround(*value * ns_per_us)}};
    }

   private:
    std::string ask(std::string_view line) {
      ProcessResult run = program_.ask(line);
      if (run.stopped != Stopped::no || run.out.empty())
        throw InputError(
            fmt::format("{}: ended, or took over a minute, in place of an answer to each line{}",
                        path_, last_lines(run.error_tail, 3)));
      run.out.resize(run.out.find_last_not_of(" \r\n") + 1);
      return run.out;
    }

    const std::string& path_;
    Simulator simulator_;
    std::unique_ptr<Evaluator> memory_;
    LineProgram program_;
  };

  std::string path_;
};

}  // namespace
}  // namespace external

std::unique_ptr<Placer> make_exec(Options& o) { return std::make_unique<external::Exec>(o); }
std::unique_ptr<Objective> make_exec_objective(Options& o) {
  return std::make_unique<external::ExecObjective>(o);
}

}  // namespace baechi
