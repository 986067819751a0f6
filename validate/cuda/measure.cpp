#include "validate/cuda/measure.h"

#include <algorithm>
#include <cstdio>
#include <memory>
#include <numeric>
#include <random>
#include <span>

#include "validate/cuda/memory_pool.h"
#include "validate/cuda/run_folder.h"
#include "validate/cuda/step.h"

namespace baechi::validate::replay {

namespace {

constexpr int warm_up = 2;             // passes
constexpr unsigned smallest_part = 8;  // SMs

struct Prepared {
  const Benchmark* benchmark = nullptr;
  std::unique_ptr<Step> step;
};

/// The benchmarks of `all` that this machine can run; prints which it cannot run, and why.
std::vector<Prepared> prepare(Machine& machine, std::span<const Benchmark> all) {
  std::vector<Prepared> prepared;
  for (const Benchmark& b : all) {
    try {
      prepared.push_back({&b, std::make_unique<Step>(machine, b.plan)});
    } catch (const std::runtime_error& error) {
      std::fprintf(stderr, "left out: %s: %s\n", b.row.line().c_str(), error.what());
    }
  }
  return prepared;
}

/// One run, whose samples go to `file` unless it is nullptr. False: it failed, and is not run
/// again.
bool sample(Prepared& prepared, int round, TextFile* file) {
  if (prepared.step == nullptr) return true;
  const StepResult result = prepared.step->run();
  const Benchmark& b = *prepared.benchmark;
  Measurement row = b.row;
  row.round = round;
  if (result.verdict != StepResult::Verdict::ok) {
    std::fprintf(stderr, "failed: %s: %s\n", row.line().c_str(), result.why.c_str());
    prepared.step.reset();
    return false;
  }
  if (file == nullptr) return true;
  for (const double value : b.samples(result.times, result.first_ns, result.submit_ns)) {
    row.value = value;
    file->line(row.line());
  }
  return true;
}

void measure_granules(TextFile& file) {
  for (const std::int64_t mib : {3, 100, 256, 1001}) {
    Measurement row{.what = "granule", .args = std::to_string(mib << 20)};
    row.value = static_cast<double>(granted(mib << 20));
    file.line(row.line());
  }
}

bool has_cublas() {
  try {
    const Cublas probe(smallest_part);
    return true;
  } catch (const std::runtime_error& error) {
    std::fprintf(stderr, "left out: cublas: %s\n", error.what());
    return false;
  }
}

}  // namespace

std::int64_t granted(std::int64_t budget) {
  constexpr std::int64_t piece = 256 << 10;
  constexpr std::int64_t enough = 256LL << 20;  // beyond the budget: then it is none
  MemoryPool pool(budget);
  std::int64_t bytes = 0;
  while (bytes < budget + enough && pool.allocate(piece) != nullptr) bytes += piece;
  return bytes;
}

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
  open_gpus();
  const std::vector<Benchmark> all =
      benchmarks({.devices = options.devices, .cublas = has_cublas(), .peer = options.peer});
  std::vector<const ReplayPlan*> plans;
  plans.reserve(all.size());
  for (const Benchmark& b : all) plans.push_back(&b.plan);
  MachineOptions machine_options = machine_for(plans, options.devices);
  machine_options.green_contexts = options.green_contexts;
  machine_options.gpu_per_device = options.peer;
  Machine machine(machine_options);
  make_folder(options.folder);
  TextFile file(options.folder + "/measurements.csv", Measurement::header());
  ClockRate clock;

  const Benchmark watch = canary();
  std::vector<Prepared> canaries = prepare(machine, {&watch, 1});
  std::vector<Prepared> prepared = prepare(machine, all);
  int failed = static_cast<int>(all.size() - prepared.size());
  int round = -warm_up;
  for (; round < options.rounds && (round <= 0 || seconds() < options.seconds); ++round) {
    TextFile* const to = round < 0 ? nullptr : &file;
    for (const std::size_t i :
         shuffled(prepared.size(), options.seed + static_cast<std::uint64_t>(round + warm_up)))
      failed += sample(prepared[i], std::max(round, 0), to) ? 0 : 1;
    for (Prepared& c : canaries) failed += sample(c, std::max(round, 0), to) ? 0 : 1;
    clock.sample();
  }
  machine.enter(machine.device(0));
  measure_granules(file);
  file.finish();
  write_machine(options.folder, machine, clock);
  std::printf("%zu benchmarks, %d passes, %d failed, %.0f s: %s\n", prepared.size(), round, failed,
              seconds(), options.folder.c_str());
  return failed == 0 ? 0 : 1;
}

}  // namespace baechi::validate::replay
