#include "validate/cuda/run_folder.h"

#include <cstdio>
#include <ctime>
#include <filesystem>

#include "validate/cuda/measure.h"

namespace baechi::validate::replay {

namespace {

/// PATH.part, or the first of PATH.2.part, PATH.3.part, ... that is not there.
std::string free_name(const std::string& path) {
  std::string name = path + ".part";
  for (int i = 2; std::filesystem::exists(name); ++i)
    name = path + "." + std::to_string(i) + ".part";
  return name;
}

struct Prepared {
  const ReplayPlan* plan = nullptr;
  std::unique_ptr<Step> step{};  ///< nullptr: given up
  int replays = 0;
  int strikes = 0;
};

/// After so many failures a plan is given up.
constexpr int most_strikes = 3;

struct Run {
  const ReplayOptions& options;
  Failures failures;
  TextFile steps;
  TextFile timelines;
  TextFile canaries;
  ClockRate clock;
  std::int64_t begin = host_ns(), flushed = begin;
  int replays = 0;
  int failed = 0;

  explicit Run(const ReplayOptions& o)
      : options(o),
        failures(o.folder),
        steps(o.folder + "/steps.csv", steps_header(), o.more),
        timelines(o.folder + "/timeline.csv", timeline_header(), o.more),
        canaries(o.folder + "/canaries.csv", Measurement::header(), o.more) {}

  /// `share` of the time that there is, is gone.
  bool time_is_up(double share) const {
    return static_cast<double>(host_ns() - begin) / 1e9 > share * options.seconds;
  }

  void fail(const ReplayPlan& plan, int replay, int round, const std::string& why) {
    StepResult result;
    result.verdict = StepResult::Verdict::failed;
    steps.line(steps_line(plan, replay, round, result));
    ++failed;
    failures.add(plan.name, why);
  }

  void flush() {
    steps.flush();
    timelines.flush();
    canaries.flush();
    flushed = host_ns();
  }

  /// A killed process loses its last two seconds.
  void flush_now_and_then() {
    if (host_ns() - flushed > 2'000'000'000) flush();
  }
};

/// One replay. `round` < 0: warm-up.
void run_once(Run& run, Prepared& prepared, int round) {
  if (prepared.step == nullptr) return;
  StepResult result;
  try {
    result = prepared.step->run();
  } catch (const CudaError& error) {
    result.verdict = StepResult::Verdict::failed;
    result.why = error.what();
  }
  if (result.verdict == StepResult::Verdict::failed) {
    run.fail(*prepared.plan, prepared.replays, std::max(round, 0), result.why);
    if (++prepared.strikes == most_strikes) prepared.step.reset();
    return ensure_usable(prepared.plan->name);
  }
  if (round < 0) return;
  run.steps.line(steps_line(*prepared.plan, prepared.replays, round, result));
  if (prepared.replays < run.options.timelines && result.verdict == StepResult::Verdict::ok)
    write_timeline(run.timelines, *prepared.plan, prepared.replays, round, result.times);
  ++prepared.replays;
  ++run.replays;
  run.flush_now_and_then();
}

/// A GEMM now and then; if it fails, only its own time is lost.
class Canary {
 public:
  Canary(Machine& machine, Run& run) : benchmark_(canary()), run_(run) {
    attempt([&] { step_ = std::make_unique<Step>(machine, benchmark_.plan); });
  }

  void sing(int block) {
    run_.clock.sample();
    if (step_ == nullptr) return;
    attempt([&] {
      const StepResult result = step_->run();
      if (result.verdict != StepResult::Verdict::ok) throw CudaError(cudaErrorUnknown, result.why);
      Measurement row = benchmark_.row;
      row.round = block;
      for (const double value : benchmark_.samples(result.times, 0, 0)) {
        row.value = value;
        run_.canaries.line(row.line());
      }
    });
  }

 private:
  void attempt(const auto& work) {
    try {
      work();
    } catch (const CudaError& error) {
      step_.reset();
      ++run_.failed;
      run_.failures.add("canary", error.what());
      ensure_usable("canary");
    }
  }

  Benchmark benchmark_;
  Run& run_;
  std::unique_ptr<Step> step_;
};

void replay_on(Machine& machine, Run& run, const std::vector<const ReplayPlan*>& plans) {
  write_machine(run.options.folder, machine, run.clock);
  const std::set<std::string> failed_before =
      run.options.more ? run.failures.names() : std::set<std::string>{};
  std::vector<Prepared> prepared;
  for (const ReplayPlan* plan : plans) {
    if (failed_before.contains(plan->name)) continue;
    prepared.push_back({.plan = plan});
    try {
      prepared.back().step = std::make_unique<Step>(machine, *plan);
    } catch (const std::runtime_error& error) {
      run.fail(*plan, 0, 0, error.what());
      ensure_usable(plan->name);
    }
  }
  Canary canary(machine, run);
  int pass = 0;
  const auto once_each = [&](int round) {
    const std::uint64_t seed = run.options.seed + static_cast<std::uint64_t>(pass);
    for (const std::size_t i : shuffled(prepared.size(), seed)) run_once(run, prepared[i], round);
    ++pass;
    run.flush();
  };
  for (int i = 0; i < run.options.warm_up && !run.time_is_up(0.2); ++i) once_each(-1);
  for (int round = 0; round < run.options.rounds; ++round) {
    const double share = (round + 1.0) / run.options.rounds;  // so that every round has replays
    for (int i = 0; i < run.options.repeats && !run.time_is_up(share); ++i) {
      canary.sing(pass);
      once_each(round);
    }
  }
  canary.sing(pass);
  write_machine(run.options.folder, machine, run.clock);
}

}  // namespace

TextFile::TextFile(std::string path, const std::string& header, bool more)
    : path_(std::move(path)), part_(free_name(path_)), out_(part_, std::ios::binary) {
  const std::ifstream before(path_, std::ios::binary);
  if (more && before)
    out_ << before.rdbuf();
  else
    line(header);
  if (!out_) throw BadInput(part_ + ": cannot be written");
  flush();
}

TextFile::~TextFile() {
  try {
    if (!finished_) finish();
  } catch (const BadInput& error) {
    std::fprintf(stderr, "%s\n", error.what());
  }
}

void Failures::add(const std::string& what, const std::string& why) const {
  std::fprintf(stderr, "failed: %s: %s\n", what.c_str(), why.c_str());
  std::ofstream(path_, std::ios::binary | std::ios::app) << what << ": " << why << '\n';
}

std::set<std::string> Failures::names() const {
  std::set<std::string> names;
  std::ifstream in(path_, std::ios::binary);
  for (std::string line; std::getline(in, line);) names.insert(line.substr(0, line.find(": ")));
  return names;
}

void TextFile::finish() {
  finished_ = true;
  out_.close();
  std::error_code error;
  if (out_) std::filesystem::rename(part_, path_, error);
  if (!out_ || error) throw BadInput(path_ + ": cannot be written");
}

std::string steps_header() { return "plan,replay,round,mode,step_ns,submit_ns,verdict,peak_bytes"; }

std::string steps_line(const ReplayPlan& plan, int replay, int round, const StepResult& result) {
  const bool ok = result.verdict == StepResult::Verdict::ok;
  std::string text = plan.name + "," + std::to_string(replay) + "," + std::to_string(round) + "," +
                     std::string(to_text(plan.mode)) + ",";
  if (ok) text += std::to_string(span(result.times));
  text += ",";
  if (ok) text += std::to_string(result.submit_ns);
  text += std::string(",") + name_of(result.verdict) + ",";
  if (!ok) return text;
  for (std::size_t i = 0; i < result.peak.size(); ++i)
    text += (i == 0 ? "" : ";") + std::to_string(result.peak[i]);
  return text;
}

std::string timeline_header() { return "plan,replay,round,mode,task,start_ns,end_ns"; }

void write_timeline(TextFile& file, const ReplayPlan& plan, int replay, int round,
                    const Timeline& times) {
  const std::string begin = plan.name + "," + std::to_string(replay) + "," + std::to_string(round) +
                            "," + std::string(to_text(plan.mode)) + ",";
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (times[i].known())
      file.line(begin + std::to_string(i) + "," + std::to_string(times[i].start) + "," +
                std::to_string(times[i].end));
  }
}

void write_machine(const std::string& folder, const Machine& machine, const ClockRate& clock) {
  TextFile file(folder + "/machine.txt", "baechi-machine 1");
  for (const auto& [key, value] : gpu_facts()) {
    std::string text = key;
    file.line(text.append(" ").append(value));
  }
  for (int d = 0; d < machine.options().devices; ++d) {
    const Device& device = machine.device(d);
    file.line("partition " + std::to_string(d) + " " + std::to_string(device.compute.sms) + " " +
              std::to_string(device.link.sms));
  }
  const bool looked = machine.options().green_contexts;
  file.line(std::string("disjoint ") + (!looked ? "unknown" : machine.disjoint() ? "yes" : "no"));
  file.line("clock_mhz " + std::to_string(clock.lowest()) + " " + std::to_string(clock.highest()));
  file.line("timer_tick_ns " + std::to_string(machine.timer_tick()));
  file.line(std::string("harness ") + REPLAY_COMMIT);
  const std::time_t now = std::time(nullptr);
  std::tm utc{};
  gmtime_r(&now, &utc);
  char date[16];
  std::strftime(date, sizeof date, "%Y-%m-%d", &utc);
  file.line(std::string("date ") + date);
  file.line(std::string("partitions_by ") +
            (machine.options().green_contexts ? "green contexts" : "capped grids"));
  file.line(std::string("events_by ") +
            (machine.events_of_parts() ? "green contexts" : "primary context"));
  file.line("split " + machine.split().text());
  file.finish();
}

void make_folder(const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) throw BadInput(folder + ": cannot be made: " + error.message());
}

int replay_plans(const std::vector<ReplayPlan>& plans, const ReplayOptions& options) {
  open_gpu();
  std::vector<const ReplayPlan*> all;
  for (const ReplayPlan& plan : plans) all.push_back(&plan);
  Run run(options);
  if (!all.empty()) {
    MachineOptions machine_options = machine_for(all, options.devices);
    machine_options.green_contexts = options.green_contexts;
    Machine machine(machine_options);
    if (options.green_contexts && !machine.disjoint())
      std::fprintf(stderr, "the devices' parts of the GPU overlap: machine.txt says so\n");
    replay_on(machine, run, all);
  }
  run.steps.finish();
  run.timelines.finish();
  run.canaries.finish();
  std::printf("%zu plans, %d replays, %d failed: %s\n", plans.size(), run.replays, run.failed,
              options.folder.c_str());
  return run.failed == 0 ? 0 : 1;
}

}  // namespace baechi::validate::replay
