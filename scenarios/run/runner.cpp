#include "scenarios/run/runner.h"

#include <algorithm>
#include <chrono>
#include <exception>
#include <mutex>
#include <numeric>

#include "scenarios/run/parallel.h"
#include "scenarios/run/build.h"
#include "sim/problem/bounds.h"
#include "sim/cluster/perturbed_costs.h"
#include "sim/engine/simulation.h"
#include "sim/error.h"

namespace baechi {
namespace {

std::string one_line(std::string text) {
  std::ranges::replace(text, '\n', ';');
  return text;
}

std::string describe(const OutOfMemory& oom, const Problem& problem) {
  std::string live;
  for (const MemoryKind kind : memory_kinds)
    live +=
        fmt::format("{}{} {}", live.empty() ? "" : ", ", to_text(kind), to_text(oom.live[kind]));
  return fmt::format(
      "{}: {} '{}' needs {}, {} is free of {} at {} (live: {})",
      problem.cluster.device(oom.device).name, oom.transfer ? "the transfer of a tensor of" : "op",
      problem.graph.name(oom.op), to_text(oom.needed), to_text(oom.free),
      to_text(problem.cluster.device(oom.device).memory), to_text(oom.at.time_since_epoch()), live);
}

/// Throws std::runtime_error unless every op has a device that is there.
void check_placement(const Placement& placement, const Problem& problem) {
  if (placement.device.size() != problem.graph.num_ops())
    throw std::runtime_error(fmt::format("the placer placed {} of {} ops", placement.device.size(),
                                         problem.graph.num_ops()));
  for (const OpId v : problem.graph.ops()) {
    if (index(placement.device[v]) >= problem.cluster.num_devices())
      throw std::runtime_error(fmt::format("the placer put op '{}' on device {} of {}",
                                           problem.graph.name(v), index(placement.device[v]),
                                           problem.cluster.num_devices()));
  }
}

std::string bytes_of(const Placement& placement, std::size_t num_devices) {
  std::string bytes;
  bytes.reserve(placement.device.size() * (num_devices > 256 ? 2 : 1));
  for (const DeviceId d : placement.device) {
    bytes += static_cast<char>(index(d) & 0xffU);
    if (num_devices > 256) bytes += static_cast<char>(index(d) >> 8U);
  }
  return bytes;
}

void simulate_into(RunResult& row, const Problem& problem, const Placement& placement) {
  const StepResult step = simulate(problem, placement);
  row.status = step.oom ? Status::oom : Status::ok;
  if (step.oom)
    row.detail = describe(*step.oom, problem);
  else
    row.step_time = step.makespan;
  row.peak = Bytes{};
  for (const DeviceId d : step.devices.ids()) {
    row.peak = std::max(*row.peak, step.devices[d].peak);
    row.device_peaks.push_back(step.devices[d].peak);
  }
  row.moved = step.moved;
}

/// What a run places and what it simulates.
class RunProblems {
 public:
  RunProblems(const Plan& plan, const PlannedRun& run)
      : file_(plan.files[run.file]),
        blocks_(file_.blocks(run.point)),
        shared_(plan.problem(run)),
        graph_(plan.graphs[run.graph]),
        placer_(*plan.placers[run.placer]),
        seed_(run.seed) {
    const double error = file_.profiles[blocks_.profile].error;
    if (error > 0.0) perturbed_.emplace(*shared_->placed_costs, *graph_.placed, error, seed_);
  }

  const PlannedProblem& shared() const { return *shared_; }
  const PreparedGraph& graph() const { return graph_; }
  Problem step() const { return {*graph_.step, shared_->cluster, *shared_->costs, engine()}; }

  /// The placer's answer, checked, of the step. Throws what the placer throws.
  Placement place() const {
    require_needs(graph_, shared_->cluster);
    const CostModel* known = shared_->placed_costs.get();
    if (perturbed_) known = &*perturbed_;
    EngineOptions assumed = engine();
    assumed.transfers = file_.profiles[blocks_.profile].transfers.value_or(assumed.transfers);
    const Problem placed{*graph_.placed, shared_->cluster, *known, assumed};
    Placement answer = placer_.place(placed, seed_);
    check_placement(answer, placed);
    return expand(std::move(answer), graph_);
  }

 private:
  const EngineOptions& engine() const { return file_.engines[blocks_.engine]; }

  const ScenarioFile& file_;
  const PointBlocks blocks_;
  const std::shared_ptr<const PlannedProblem> shared_;
  const PreparedGraph& graph_;
  const Placer& placer_;
  const std::uint64_t seed_;
  std::optional<PerturbedCosts> perturbed_;
};

/// The devices that bytes_of() wrote.
IdVector<OpId, DeviceId> devices_from(const std::string& bytes, std::size_t num_devices) {
  const std::size_t width = num_devices > 256 ? 2 : 1;
  IdVector<OpId, DeviceId> devices;
  devices.reserve(bytes.size() / width);
  for (std::size_t i = 0; i < bytes.size(); i += width) {
    std::uint32_t d = static_cast<unsigned char>(bytes[i]);
    if (width == 2) d += static_cast<unsigned char>(bytes[i + 1]) * 256U;
    devices.push_back(DeviceId{d});
  }
  return devices;
}

/// Rows that wait to be given away together.
class Batch {
 public:
  Batch(std::mutex& mutex, const TakeRows& take) : mutex_(mutex), take_(take) {}
  void add(RunResult row) {
    rows_.push_back(std::move(row));
    if (rows_.size() >= most || Clock::now() - since_ >= longest) give();
  }
  void give() {
    if (!rows_.empty()) {
      const std::lock_guard lock(mutex_);
      take_(rows_);
    }
    rows_.clear();
    since_ = Clock::now();
  }

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::size_t most = 64;
  static constexpr std::chrono::milliseconds longest{100};
  std::mutex& mutex_;
  const TakeRows& take_;
  std::vector<RunResult> rows_;
  Clock::time_point since_ = Clock::now();
};

}  // namespace

RunResult run_one(const Plan& plan, std::size_t id) {
  const PlannedRun planned = plan.run(id);
  const RunProblems problems(plan, planned);
  const PreparedGraph& graph = problems.graph();
  RunResult row = plan.row(id);
  row.lower_bound = problems.shared().lower_bound;

  const auto start = std::chrono::steady_clock::now();
  const auto stop = [&] {
    row.placing = graph.transforming + (std::chrono::steady_clock::now() - start);
  };
  try {
    const Placement placement = problems.place();
    stop();
    row.detail = one_line(placement.detail);
    row.facts = placement.facts;
    row.facts["placed_ops"] = static_cast<double>(graph.placed->num_ops());
    if (plan.files[planned.file].report.placements)
      row.placement = bytes_of(placement, row.devices);
    const RunStep step(plan, planned, placement);
    row.lower_bound = step.lower_bound();
    simulate_into(row, step.problem(), step.placement());
  } catch (const InfeasibleError& e) {
    stop();
    row.status = Status::infeasible;
    row.detail = one_line(e.what());
  } catch (const std::exception& e) {
    stop();
    row.status = Status::error;
    row.detail = one_line(e.what());
  }
  return row;
}

RunStep::RunStep(const Plan& plan, const PlannedRun& run, Placement placement)
    : engine_(plan.files[run.file].engines[plan.files[run.file].blocks(run.point).engine]),
      graph_(*plan.graphs[run.graph].step),
      shared_(plan.problem(run)),
      placement_(std::move(placement)),
      other_(after_placing(plan.graphs[run.graph], placement_)) {
  if (other_)
    costs_ =
        make_costs(plan.files[run.file].point(run.point).cluster, other_->graph, shared_->cluster);
}

Problem RunStep::problem() const {
  if (other_) return {other_->graph, shared_->cluster, *costs_, engine_};
  return {graph_, shared_->cluster, *shared_->costs, engine_};
}

Duration RunStep::lower_bound() const {
  return other_ ? lower_bounds(other_->graph, shared_->cluster, *costs_).best()
                : shared_->lower_bound;
}

RunStep step_of(const Plan& plan, const RunResult& row) {
  const PlannedRun run = plan.run(row.id);
  const RunProblems problems(plan, run);
  const Problem step = problems.step();
  Placement placement;
  if (step.engine.queue == ReadyOrder::fifo)
    placement.device = devices_from(row.placement, step.cluster.num_devices());
  if (placement.device.size() != step.graph.num_ops()) return {plan, run, problems.place()};
  check_placement(placement, step);
  return {plan, run, std::move(placement)};
}

std::vector<std::size_t> all_runs(const Plan& plan) {
  return shard_runs(plan, 1, 1);
}

std::vector<std::size_t> shard_runs(const Plan& plan, std::size_t shard, std::size_t shards) {
  std::vector<std::size_t> points(plan.num_points());
  std::iota(points.begin(), points.end(), 0U);
  if (shards > 1) {
    std::vector<std::uint64_t> keys;  // [points]: of their first runs
    keys.reserve(points.size());
    for (const std::size_t p : points) keys.push_back(plan.key(plan.runs_of(p).begin));
    std::ranges::stable_sort(points, {}, [&](std::size_t p) { return keys[p]; });
    std::vector<std::size_t> dealt;
    for (std::size_t i = shard - 1; i < points.size(); i += shards) dealt.push_back(points[i]);
    std::ranges::sort(dealt);
    points = std::move(dealt);
  }
  std::vector<std::size_t> ids;
  for (const std::size_t p : points) {
    const Plan::Ids runs = plan.runs_of(p);
    for (std::size_t id = runs.begin; id < runs.end; ++id) ids.push_back(id);
  }
  return ids;
}

void run_each(const Plan& plan, std::size_t threads, const NextRun& next, const TakeRows& take) {
  std::mutex mutex;
  std::atomic<bool> failed{false};
  std::exception_ptr failure;
  for_each_in_parallel(threads, threads, nullptr, [&](std::size_t) {
    try {
      Batch batch(mutex, take);
      while (!failed.load(std::memory_order_relaxed)) {
        const std::optional<std::size_t> id = next();
        if (!id) break;
        batch.add(run_one(plan, *id));
      }
      batch.give();
    } catch (...) {
      const std::lock_guard lock(mutex);
      if (!failed.exchange(true)) failure = std::current_exception();
    }
  });
  if (failure) std::rethrow_exception(failure);
}

NextRun each_of(std::span<const std::size_t> ids, std::atomic<std::size_t>& begun,
                const std::atomic<bool>* stop) {
  return [ids, &begun, stop]() -> std::optional<std::size_t> {
    if (stop != nullptr && stop->load(std::memory_order_relaxed)) return std::nullopt;
    const std::size_t i = begun.fetch_add(1, std::memory_order_relaxed);
    if (i >= ids.size()) return std::nullopt;
    return ids[i];
  };
}

Results run(const Plan& plan, std::span<const std::size_t> ids, const RunSettings& settings) {
  Results results{plan.header, {}};
  std::atomic<std::size_t> begun{0};
  const std::size_t threads = std::clamp<std::size_t>(ids.size(), 1, settings.threads);
  run_each(plan, threads, each_of(ids, begun, settings.stop), [&](std::span<const RunResult> rows) {
    results.rows.insert(results.rows.end(), rows.begin(), rows.end());
    if (settings.done != nullptr) settings.done->fetch_add(rows.size());
  });
  std::ranges::sort(results.rows, {}, &RunResult::id);
  return results;
}

}  // namespace baechi
