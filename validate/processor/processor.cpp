#include "validate/processor/processor.h"

#include <pthread.h>
#include <sched.h>

#include <algorithm>
#include <ctime>
#include <fstream>
#include <thread>

#include "sim/error.h"
#include "validate/processor/worker.h"

namespace baechi::validate {
namespace {

constexpr std::int64_t limit_ns = 10'000'000'000;

std::vector<std::size_t> usable_cores() {
  cpu_set_t set;
  CPU_ZERO(&set);
  std::vector<std::size_t> cores;
  if (sched_getaffinity(0, sizeof set, &set) != 0) return cores;
  for (std::size_t core = 0; core < CPU_SETSIZE; ++core)
    if (CPU_ISSET(core, &set)) cores.push_back(core);
  return cores;
}

/// As /proc/cpuinfo calls it, in one word a file can hold.
std::string model_name() {
  std::ifstream in("/proc/cpuinfo");
  for (std::string line; std::getline(in, line);) {
    if (!line.starts_with("model name")) continue;
    const std::size_t colon = line.find(": ");
    if (colon != std::string::npos) return line.substr(colon + 2);
  }
  return "of no name";
}

std::string today() {
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  return fmt::format("{:04}-{:02}-{:02}", utc.tm_year + 1900, utc.tm_mon + 1, utc.tm_mday);
}

/// The smallest step of the clock that is seen, in ns.
std::int64_t clock_tick() {
  std::int64_t smallest = 1'000'000;
  for (int i = 0; i < 1000; ++i) {
    const std::int64_t before = clock_ns();
    std::int64_t after = before;
    while (after == before) after = clock_ns();
    smallest = std::min(smallest, after - before);
  }
  return smallest;
}

/// Why the processor cannot run `plan`; "" if it can.
std::string refusal(const ReplayPlan& plan, int devices) {
  if (plan.mode != SubmitMode::graph) return "a processor runs plans of mode graph only";
  if (plan.lanes > 1) return "a device of a processor is one thread, so it has one lane";
  if (plan.devices > devices)
    return fmt::format("it has {} devices, the plan {}", devices, plan.devices);
  for (const Task& t : plan.tasks) {
    if (t.transfer) continue;
    const std::int64_t size = t.body.args[0];
    if (t.body.kind == BodyKind::cublas ||
        (t.body.kind == BodyKind::gemm && size > processor_gemm) ||
        (t.body.kind == BodyKind::ew && size > processor_ew))
      return fmt::format("'{}' is too large for a processor", to_text(t.body));
  }
  return "";
}

}  // namespace

/// The threads: asleep between steps.
class Processor::Crew {
 public:
  explicit Crew(int devices) : devices_(devices) {
    const std::vector<std::size_t> cores = usable_cores();
    if (cores.size() < static_cast<std::size_t>(devices))
      throw InputError(fmt::format("{} devices need a core each, and this process may use {}",
                                   devices, cores.size()));
    for (int d = 0; d < devices; ++d)
      threads_.emplace_back(
          [this, d, core = cores[static_cast<std::size_t>(d)]] { live(d, core); });
    while (awake_.load() > -devices) std::this_thread::yield();  // until all have their memory
    awake_ = 0;
  }
  ~Crew() {
    step_ = nullptr;
    ++number_;
    number_.notify_all();
  }
  Crew(const Crew&) = delete;
  Crew& operator=(const Crew&) = delete;

  int devices() const { return devices_; }
  bool real_time() const { return real_time_; }

  void run(SharedStep& step) {
    step_ = &step;
    awake_ = devices_;
    ++number_;
    number_.notify_all();
    for (int left = awake_.load(); left > 0; left = awake_.load()) awake_.wait(left);
  }

 private:
  void live(int device, std::size_t core) {
    cpu_set_t set;
    CPU_ZERO(&set);
    CPU_SET(core, &set);
    pthread_setaffinity_np(pthread_self(), sizeof set, &set);
    Worker worker(device, devices_);
    const sched_param lowest{.sched_priority = sched_get_priority_min(SCHED_FIFO)};
    if (pthread_setschedparam(pthread_self(), SCHED_FIFO, &lowest) != 0) real_time_ = false;
    --awake_;
    for (int done = 0;; ++done) {
      number_.wait(done);
      if (step_ == nullptr) return;
      if (device < step_->plan.devices) worker.run(*step_);
      --awake_;
      awake_.notify_all();
    }
  }

  const int devices_;
  SharedStep* step_ = nullptr;  // nullptr: the end
  std::atomic<int> number_{0};  // of steps
  std::atomic<int> awake_{0};   // threads that are at work; counts down from 0 while they begin
  std::atomic<bool> real_time_{true};
  std::vector<std::jthread> threads_;
};

Processor::Processor(int devices) : crew_(std::make_unique<Crew>(devices)) {}
Processor::~Processor() = default;

Machine Processor::machine() const {
  Machine machine{.gpu = "processor " + model_name(),
                  .driver = "none",
                  .cuda = "none",
                  .harness = "threads",
                  .date = today(),
                  .sms = static_cast<int>(std::thread::hardware_concurrency()),
                  .partitions = {},
                  .disjoint = "yes",
                  .timer_tick_ns = static_cast<double>(clock_tick())};
  for (int d = 0; d < crew_->devices(); ++d) machine.partitions.push_back({1, 1});
  machine.more.emplace_back("priority", crew_->real_time() ? "real-time" : "ordinary");
  return machine;
}

BenchmarkScale Processor::scale() const {
  const std::vector<Body> both{{.kind = BodyKind::gemm, .args = {96}},
                               {.kind = BodyKind::ew, .args = {1 << 20}}};
  BenchmarkScale scale{.modes = {SubmitMode::graph},
                       .ops = {},
                       .in_chains = both,
                       .subjects = both,
                       .neighbours = both,
                       .largest_copy = 8 << 20,
                       .copies_at_once = 4 << 20,
                       .paces = {{10'000, 10'000}, {134'000, 1'754}}};
  for (const std::int64_t n : {16, 32, 48, 64, 80, 96, 128, 160, 192})
    scale.ops.push_back({.kind = BodyKind::gemm, .args = {n}});
  for (std::int64_t bytes = 16 << 10; bytes <= 16 << 20; bytes *= 2)
    scale.ops.push_back({.kind = BodyKind::ew, .args = {bytes}});
  return scale;
}

Outcome Processor::run(const ReplayPlan& plan) {
  if (!refusal(plan, crew_->devices()).empty()) return {.verdict = Verdict::failed};
  SharedStep step(plan, limit_ns);
  const std::int64_t begin = clock_ns();
  if (!step.stop) crew_->run(step);
  if (step.full) return {.verdict = Verdict::oom};
  if (step.stop) return {.verdict = Verdict::failed};
  Outcome outcome;
  std::int64_t first = 0;
  for (std::size_t i = 0; i < step.tasks.size(); ++i)
    first = i == 0 ? step.tasks[i].start : std::min(first, step.tasks[i].start);
  for (const SharedTask& task : step.tasks) {
    outcome.replay.start.emplace_back(task.start - first);
    outcome.replay.end.emplace_back(task.end - first);
  }
  outcome.submit = Duration{std::max<std::int64_t>(first - begin, 0)};
  outcome.peaks = peaks(plan, outcome.replay);
  return outcome;
}

}  // namespace baechi::validate
