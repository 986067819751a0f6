#include "scenarios/run/runner.h"

#include <algorithm>
#include <map>
#include <set>

#include "placers/registry.h"
#include "scenarios/run/blocks.h"
#include "scenarios/run/hash.h"
#include "scenarios/run/parallel.h"
#include "scenarios/run/problem.h"
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
      : shared_(*plan.problems[run.problem]),
        graph_(plan.graphs[shared_.graph]),
        placer_(*plan.placers[run.placer]),
        seed_(run.seed),
        point_(plan.files[run.file].points[run.point]) {
    const double error = point_.profile.error;
    if (error > 0.0) perturbed_.emplace(*shared_.placed_costs, *graph_.placed, error, seed_);
  }

  const PlannedProblem& shared() const { return shared_; }
  const PreparedGraph& graph() const { return graph_; }
  Problem step() const { return {*graph_.step, shared_.cluster, *shared_.costs, point_.engine}; }

  /// The placer's answer, checked, of the step. Throws what the placer throws.
  Placement place() const {
    require_needs(graph_, shared_.cluster);
    const CostModel* known = shared_.placed_costs.get();
    if (perturbed_) known = &*perturbed_;
    EngineOptions engine = point_.engine;
    engine.transfers = point_.profile.transfers.value_or(engine.transfers);
    const Problem placed{*graph_.placed, shared_.cluster, *known, engine};
    Placement answer = placer_.place(placed, seed_);
    check_placement(answer, placed);
    return expand(std::move(answer), graph_);
  }

 private:
  const PlannedProblem& shared_;
  const PreparedGraph& graph_;
  const Placer& placer_;
  std::uint64_t seed_;
  const Scenario& point_;
  std::optional<PerturbedCosts> perturbed_;
};

RunResult run_one(const Plan& plan, std::size_t id) {
  const PlannedRun& planned = plan.runs[id];
  const ScenarioFile& file = plan.files[planned.file];
  const Scenario& point = file.points[planned.point];
  const RunProblems problems(plan, planned);
  const PreparedGraph& graph = problems.graph();

  RunResult row;
  row.id = id;
  row.scenario = planned.file;
  row.graph = plan.graph_record[problems.shared().graph];
  row.placer = point.placers[planned.choice].label;
  row.seed = planned.seed;
  const Cluster& cluster = problems.shared().cluster;
  row.devices = cluster.num_devices();
  row.memory_fraction = point.cluster.memory_fraction;
  for (const DeviceId d : cluster.devices())
    row.memory = std::max(row.memory, cluster.device(d).memory);
  row.transfers = point.engine.transfers;
  row.lower_bound = problems.shared().bounds.best();
  row.at.resize(plan.header.axes.size());
  for (std::size_t i = 0; i < file.axes.size(); ++i) {
    const auto axis = std::ranges::find(plan.header.axes, file.axes[i]) - plan.header.axes.begin();
    row.at[static_cast<std::size_t>(axis)] = point.at[i];
  }

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
    if (file.report.placements) row.placement = bytes_of(placement, cluster.num_devices());
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

/// Makes a plan, each distinct thing once.
class Planner {
 public:
  Planner(std::vector<ScenarioFile> files, std::size_t threads) : threads_(threads) {
    plan_.files = std::move(files);
  }

  Plan make(Mistakes& mistakes) {
    number_problems();
    read_traces();
    if (findings_.size() == 0) prepare_graphs();
    if (findings_.size() == 0) make_problems();
    make_runs();
    const bool whole =
        std::ranges::none_of(plan_.files, [](const auto& f) { return f.points.empty(); });
    if (findings_.size() == 0 && whole) describe_plan();
    findings_.pour_into(mistakes);
    return std::move(plan_);
  }

 private:
  /// A choice that several points share, at the first of them.
  struct First {
    const Scenario* point;
    std::size_t of;  // what it is made of: into traces_, or plan_.graphs
  };

  void number_problems() {
    std::map<std::string, std::size_t> trace_of, graph_of, problem_of;
    const auto number = [](auto& numbers, const std::string& key) {
      return numbers.emplace(key, numbers.size());
    };
    for (std::size_t f = 0; f < plan_.files.size(); ++f) {
      for (const Scenario& point : plan_.files[f].points) {
        const auto [trace, new_trace] =
            number(trace_of, fmt::format("{}\n{}\n{}", f, point.graph.file, point.graph.text));
        if (new_trace) sources_.push_back(&point.graph);
        std::string kinds;
        for (const DeviceChoice& d : point.cluster.devices)
          if (d.model != nullptr) kinds += d.kind + "\n";
        const auto [graph, new_graph] = number(
            graph_of, fmt::format("{}\n{}\n{}", trace->second, kinds, point.transforms_text));
        if (new_graph) graphs_.push_back({&point, trace->second});
        const auto [problem, new_problem] =
            number(problem_of, fmt::format("{}\n{}", graph->second, point.cluster_text));
        if (new_problem) problems_.push_back({&point, graph->second});
        problem_of_point_.push_back(problem->second);
      }
    }
  }

  /// Runs `work` for each number in parallel; its mistakes are added in the order of the numbers.
  void gather(std::size_t count, const std::function<void(std::size_t)>& work) {
    std::vector<std::string> wrong(count);
    for_each_in_parallel(count, threads_, nullptr, [&](std::size_t i) {
      try {
        work(i);
      } catch (const std::exception& e) {
        wrong[i] = e.what();
      }
    });
    for (const std::string& lines : wrong) findings_.add(lines);
  }

  void read_traces() {
    traces_.resize(sources_.size());
    gather(sources_.size(), [&](std::size_t i) {
      traces_[i] = std::make_shared<const Trace>(load_graph(*sources_[i]));
    });
  }

  void prepare_graphs() {
    plan_.graphs.resize(graphs_.size());
    gather(graphs_.size(), [&](std::size_t i) {
      const auto& [point, trace] = graphs_[i];
      plan_.graphs[i] =
          prepare({traces_[trace], &traces_[trace]->graph}, point->cluster, point->transforms);
    });
  }

  void make_problems() {
    plan_.problems.resize(problems_.size());
    gather(problems_.size(), [&](std::size_t i) {
      const auto& [point, graph] = problems_[i];
      auto problem = std::make_unique<PlannedProblem>();
      problem->graph = graph;
      problem->cluster = make_cluster(point->cluster);
      const PreparedGraph& prepared = plan_.graphs[graph];
      problem->costs = make_costs(point->cluster, *prepared.step, problem->cluster);
      problem->placed_costs = make_costs(point->cluster, *prepared.placed, problem->cluster);
      problem->bounds = lower_bounds(*prepared.step, problem->cluster, *problem->costs);
      if (const auto* calibrated = dynamic_cast<const CalibratedCosts*>(problem->costs.get()))
        problem->warning = calibrated->outside();
      plan_.problems[i] = std::move(problem);
    });
  }

  void make_runs() {
    std::size_t point_number = 0;
    for (std::size_t f = 0; f < plan_.files.size(); ++f) {
      const ScenarioFile& file = plan_.files[f];
      if (file.points.empty()) continue;
      const std::size_t first_placer = plan_.placers.size();
      for (const Choice& c : file.points.front().placers)
        findings_.attempt(
            [&] { plan_.placers.push_back(make_placer(c.name, c.options, c.where)); });
      for (std::size_t p = 0; p < file.points.size(); ++p, ++point_number) {
        const Scenario& point = file.points[p];
        if (plan_.runs.size() + point.placers.size() * point.seeds.size() > most_runs)
          return findings_.add(fmt::format("{}: more than {} runs", file.path, most_runs));
        for (std::size_t c = 0; c < point.placers.size(); ++c) {
          for (const std::uint64_t seed : point.seeds)
            plan_.runs.push_back({.file = f,
                                  .point = p,
                                  .problem = problem_of_point_[point_number],
                                  .placer = first_placer + c,
                                  .choice = c,
                                  .seed = seed});
        }
      }
    }
  }

  void describe_plan() {
    Results& header = plan_.header;
    header.version = BAECHI_VERSION;
    header.planned = plan_.runs.size();
    bool placements = false;
    for (const ScenarioFile& file : plan_.files) {
      header.scenarios.push_back({.name = file.points.front().name,
                                  .path = file.path,
                                  .text = file.text,
                                  .sets = fmt::format("{}", fmt::join(file.sets, "\n"))});
      for (const std::string& axis : file.axes)
        if (std::ranges::find(header.axes, axis) == header.axes.end()) header.axes.push_back(axis);
      placements = placements || file.report.placements;
    }
    describe_graphs(placements);
    header.hash = hash_runs();
  }

  /// A record per graph that is simulated: what only placers see is not one.
  void describe_graphs(bool placements) {
    std::vector<GraphRecord>& records = plan_.header.graphs;
    std::map<std::pair<std::size_t, std::string>, std::size_t> known;  // (trace, hash)
    std::map<std::string, std::set<std::string>> texts;                // of the graphs of a name
    std::vector<std::string> text;                                     // per record
    for (std::size_t i = 0; i < plan_.graphs.size(); ++i) {
      const Trace& trace = *traces_[graphs_[i].of];
      const OpGraph& graph = *plan_.graphs[i].step;
      const std::string hash = fmt::format("{:016x}", fingerprint(graph));
      const auto [it, fresh] = known.emplace(std::pair(graphs_[i].of, hash), records.size());
      plan_.graph_record.push_back(it->second);
      if (!fresh) continue;
      text.push_back(sources_[graphs_[i].of]->text);
      texts[trace.name].insert(text.back());
      records.push_back({.name = trace.name,
                         .label = trace.name,
                         .hash = hash,
                         .ops = graph.num_ops(),
                         .edges = graph.num_edges(),
                         .source = trace.source,
                         .format = trace.format,
                         .op_names = placements ? op_names(graph) : ""});
    }
    // Graphs of one name get what their block says behind it.
    for (std::size_t i = 0; i < records.size(); ++i)
      if (texts[records[i].name].size() > 1) records[i].label += " " + text[i];
  }

  static std::string op_names(const OpGraph& graph) {
    std::string names;
    for (const OpId v : graph.ops()) names.append(graph.name(v)).append("\n");
    return names;
  }

  /// Of all that decides the rows, and not of where files lie.
  std::string hash_runs() const {
    Hash hash;
    hash.add(BAECHI_VERSION);
    for (const GraphRecord& g : plan_.header.graphs) hash.add(g.name + g.hash);
    for (const ScenarioFile& file : plan_.files) {
      hash.add(file.points.front().name);
      hash.add(file.report.placements ? "placements" : "");
      for (const std::string& axis : file.axes) hash.add(axis);
      for (const Choice& c : file.points.front().placers) hash.add(c.text);
      for (const std::uint64_t seed : file.points.front().seeds) hash.add(fmt::format("{}", seed));
      for (const Scenario& point : file.points) {
        hash.add(point.transforms_text);
        hash.add(point.cluster_text);
        hash.add(point.engine_text);
        hash.add(point.profile_text);
        for (const std::string& at : point.at) hash.add(at);
      }
    }
    return fmt::format("{:016x}", hash.value());
  }

  static constexpr std::size_t most_runs = 1'000'000;

  std::size_t threads_;
  Plan plan_;
  Findings findings_;
  std::vector<const GraphChoice*> sources_;  // distinct ones, as the next
  std::vector<std::shared_ptr<const Trace>> traces_;
  std::vector<First> graphs_;
  std::vector<First> problems_;
  std::vector<std::size_t> problem_of_point_;  // through all files
};

}  // namespace

Plan make_plan(std::vector<ScenarioFile> files, std::size_t threads, Mistakes& mistakes) {
  return Planner(std::move(files), threads).make(mistakes);
}

RunStep::RunStep(const Plan& plan, const PlannedRun& run, Placement placement)
    : point_(plan.files[run.file].points[run.point]),
      shared_(*plan.problems[run.problem]),
      graph_(*plan.graphs[shared_.graph].step),
      placement_(std::move(placement)),
      other_(after_placing(plan.graphs[shared_.graph], placement_)) {
  if (other_) costs_ = make_costs(point_.cluster, other_->graph, shared_.cluster);
}

Problem RunStep::problem() const {
  if (other_) return {other_->graph, shared_.cluster, *costs_, point_.engine};
  return {graph_, shared_.cluster, *shared_.costs, point_.engine};
}

Duration RunStep::lower_bound() const {
  return other_ ? lower_bounds(other_->graph, shared_.cluster, *costs_).best()
                : shared_.bounds.best();
}

RunStep step_of(const Plan& plan, const RunResult& row) {
  const PlannedRun& run = plan.runs[row.id];
  const RunProblems problems(plan, run);
  const Problem step = problems.step();
  Placement placement;
  if (step.engine.queue == ReadyOrder::fifo)
    placement.device = devices_from(row.placement, step.cluster.num_devices());
  if (placement.device.size() != step.graph.num_ops()) return {plan, run, problems.place()};
  check_placement(placement, step);
  return {plan, run, std::move(placement)};
}

std::vector<std::size_t> remaining_runs(const Plan& plan, const Results* known,
                                        const RunSettings& settings) {
  std::vector<bool> is_known(plan.runs.size(), false);
  if (known != nullptr) {
    for (const RunResult& row : known->rows)
      if (row.id < is_known.size()) is_known[row.id] = true;
  }
  std::vector<std::size_t> ids;
  for (std::size_t id = settings.shard - 1; id < plan.runs.size(); id += settings.shards)
    if (!is_known[id]) ids.push_back(id);
  return ids;
}

Results run(const Plan& plan, std::span<const std::size_t> ids, const Results* known,
            const RunSettings& settings) {
  std::vector<std::optional<RunResult>> rows(ids.size());
  for_each_in_parallel(ids.size(), settings.threads, settings.stop, [&](std::size_t i) {
    rows[i] = run_one(plan, ids[i]);
    if (settings.done != nullptr) settings.done->fetch_add(1, std::memory_order_relaxed);
  });
  Results results = plan.header;
  if (known != nullptr) results.rows = known->rows;
  for (std::optional<RunResult>& row : rows)
    if (row) results.rows.push_back(std::move(*row));
  std::ranges::sort(results.rows, {}, &RunResult::id);
  return results;
}

}  // namespace baechi
