#include "validate/cuda/measure.h"

#include <algorithm>
#include <cstdio>
#include <numeric>
#include <random>

#include "validate/cuda/run_folder.h"

namespace baechi::validate::replay {

namespace {

constexpr int warm_up = 2;  // passes
/// After so many failures a benchmark is given up: one may be of the host, which was held up.
constexpr int most_strikes = 3;

/// One measurement: its benchmarks and its files. A part that fails does not end the others.
class Measuring {
 public:
  Measuring(const MeasureOptions& options, Machine& machine)
      : options_(options),
        machine_(machine),
        failures_(options.folder),
        file_(options.folder + "/measurements.csv", Measurement::header(), options.more) {
    write_machine(options.folder, machine, clock_);  // once more at the end, with the clock's range
  }

  /// What this machine cannot run, or failed before, is left out.
  void prepare(std::vector<Benchmark> all) {
    benchmarks_ = std::move(all);
    const std::set<std::string> failed_before =
        options_.more ? failures_.names() : std::set<std::string>{};
    for (const Benchmark& b : benchmarks_) {
      if (failed_before.contains(b.row.line())) continue;
      try {
        prepared_.push_back({.benchmark = &b, .step = std::make_unique<Step>(machine_, b.plan)});
      } catch (const std::runtime_error& error) {
        lose(b, error.what());
      }
    }
  }

  void pass(int round) {
    const auto seed = options_.seed + static_cast<std::uint64_t>(round + warm_up);
    for (const std::size_t i : shuffled(prepared_.size(), seed)) {
      Prepared& p = prepared_[i];
      if (p.step == nullptr) continue;
      try {
        sample(p, round);
      } catch (const std::runtime_error& error) {
        if (++p.strikes == most_strikes) p.step.reset();
        lose(*p.benchmark, error.what());
      }
    }
    clock_.sample();
    file_.flush();
  }

  int finish() {
    file_.finish();
    write_machine(options_.folder, machine_, clock_);
    return failed_;
  }

 private:
  struct Prepared {
    const Benchmark* benchmark = nullptr;
    std::unique_ptr<Step> step{};  ///< nullptr: given up
    int strikes = 0;
  };

  /// `round` < 0: warm-up.
  void sample(Prepared& prepared, int round) {
    const StepResult result = prepared.step->run();
    const Benchmark& b = *prepared.benchmark;
    if (result.verdict != StepResult::Verdict::ok) throw CudaError(cudaErrorUnknown, result.why);
    if (round < 0) return;
    Measurement row = b.row;
    row.round = round;
    for (const double value : b.samples(result.times, result.first_ns, result.submit_ns)) {
      row.value = value;
      file_.line(row.line());
    }
  }

  void lose(const Benchmark& benchmark, const std::string& why) {
    ++failed_;
    failures_.add(benchmark.row.line(), why);
    ensure_usable(benchmark.row.line());
  }

  const MeasureOptions& options_;
  Machine& machine_;
  Failures failures_;
  TextFile file_;
  ClockRate clock_;
  std::vector<Benchmark> benchmarks_;
  std::vector<Prepared> prepared_;
  int failed_ = 0;
};

}  // namespace

MachineOptions machine_for(const std::vector<const ReplayPlan*>& plans, int devices) {
  MachineOptions options{.devices = devices};
  for (const ReplayPlan* plan : plans) {
    options.devices = std::max(options.devices, plan->devices);
    options.queues = std::max(options.queues, plan->queues);
    options.scratch = std::max(options.scratch, scratch_of(*plan));
    options.pinned = std::max(options.pinned, pinned_of(*plan));
  }
  return options;
}

std::vector<std::size_t> shuffled(std::size_t n, std::uint64_t seed) {
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(seed);
  for (std::size_t left = n; left > 1; --left) std::swap(order[left - 1], order[random() % left]);
  return order;
}

int measure(const MeasureOptions& options) {
  const std::int64_t begin = host_ns();
  const auto seconds = [&] { return static_cast<double>(host_ns() - begin) / 1e9; };
  open_gpu();
  std::vector<Benchmark> all = benchmarks({.devices = options.devices, .cublas = options.cublas});
  // cuBLAS loads slowly, and may bring kernels that share SMs: its benchmarks have a process of
  // their own, with a canary like the others.
  if (options.cublas)
    std::erase_if(all, [](const Benchmark& b) {
      return b.row.subject != "cublas" && b.row.against != "cublas";
    });
  all.push_back(canary());
  std::vector<const ReplayPlan*> plans;
  plans.reserve(all.size());
  for (const Benchmark& b : all) plans.push_back(&b.plan);
  MachineOptions machine_options = machine_for(plans, options.devices);
  machine_options.green_contexts = options.green_contexts;
  Machine machine(machine_options);
  const std::size_t count = all.size();
  Measuring measuring(options, machine);
  measuring.prepare(std::move(all));
  int round = -warm_up;
  for (; round < options.rounds && (round <= 0 || seconds() < options.seconds); ++round)
    measuring.pass(round);
  const int failed = measuring.finish();
  std::printf("%zu benchmarks, %d passes, %d failed, %.0f s: %s\n", count, round, failed, seconds(),
              options.folder.c_str());
  return failed == 0 ? 0 : 1;
}

}  // namespace baechi::validate::replay
