#include "scenarios/run/sweep.h"

#include <fmt/format.h>

#include <algorithm>
#include <list>
#include <map>
#include <mutex>
#include <set>

#include "placers/registry.h"
#include "scenarios/read/calibration_file.h"
#include "scenarios/read/findings.h"
#include "sim/hash.h"
#include "scenarios/run/parallel.h"
#include "scenarios/run/build.h"
#include "sim/problem/bounds.h"
#include "sim/cluster/calibrated_costs.h"

namespace baechi {
namespace {

std::unique_ptr<PlannedProblem> make_problem(const ClusterChoice& choice,
                                             const PreparedGraph& graph) {
  auto problem = std::make_unique<PlannedProblem>();
  problem->cluster = make_cluster(choice);
  problem->costs = make_costs(choice, *graph.step, problem->cluster);
  problem->placed_costs = make_costs(choice, *graph.placed, problem->cluster);
  return problem;
}

void add(Hash& hash, const Link& link) {
  hash.add(link.bandwidth.bytes_per_second);
  hash.add(link.latency.count());
}

void add(Hash& hash, const CalibrationChoice& calibration) {
  if (calibration.measured == nullptr) return;
  hash.add(calibration_yaml(*calibration.measured));
  hash.add(calibration.use.mode);
  hash.add(calibration.use.way);
  for (const EffectName& effect : effect_names())
    hash.add(std::int64_t{calibration.use.effects.*effect.on});
}

void add(Hash& hash, const ClusterChoice& cluster) {
  for (const DeviceChoice& d : cluster.devices) {
    hash.add(static_cast<std::int64_t>(d.count));
    hash.add(d.name);
    hash.add(d.kind);
    hash.add(d.memory.count);
    hash.add(d.speed);
  }
  hash.add(cluster.memory_fraction);
  add(hash, cluster.link);
  for (const LinkChoice& l : cluster.links) {
    hash.add(static_cast<std::int64_t>(l.from));
    hash.add(static_cast<std::int64_t>(l.to));
    add(hash, l.link);
  }
  add(hash, cluster.calibration);
  if (!cluster.fit) return;
  for (const double x : {cluster.fit->us_per_byte, cluster.fit->intercept_us, cluster.fit->factor})
    hash.add(x);
  hash.add(std::int64_t{cluster.fit->whole_us} * 2 + std::int64_t{cluster.fit->empty_free});
}

void add(Hash& hash, const EngineOptions& engine) {
  for (const auto n : {static_cast<int>(engine.semantics), static_cast<int>(engine.transfers),
                       static_cast<int>(engine.queue), int{engine.cache_tensors},
                       int{engine.overlap}, int{engine.enforce_memory}})
    hash.add(std::int64_t{n});
}

void add(Hash& hash, const ProfileChoice& profile) {
  hash.add(profile.transfers ? static_cast<std::int64_t>(*profile.transfers) : std::int64_t{-1});
  hash.add(profile.error);
}

}  // namespace

/// What was made last; who asks for what is being made waits for it.
template <class T>
class Recent {
 public:
  std::shared_ptr<const T> of(std::uint64_t key, const auto& make) {
    std::shared_ptr<Entry> entry;
    {
      const std::lock_guard lock(mutex_);
      const auto it = std::ranges::find(entries_, key, [](const auto& e) { return e->key; });
      if (it != entries_.end()) {
        entry = *it;
      } else {
        entry = std::make_shared<Entry>(key);
        entries_.push_front(entry);
        if (entries_.size() > most) entries_.pop_back();
      }
    }
    std::call_once(entry->once, [&] { entry->made = make(); });
    return entry->made;
  }

 private:
  static constexpr std::size_t most = 64;
  struct Entry {
    explicit Entry(std::uint64_t k) : key(k) {}
    const std::uint64_t key;
    std::once_flag once;
    std::shared_ptr<const T> made;
  };
  std::mutex mutex_;
  std::list<std::shared_ptr<Entry>> entries_;  // the last made first
};

Plan::Plan()
    : problems_(std::make_unique<Recent<PlannedProblem>>()),
      lower_bounds_(std::make_unique<Recent<Duration>>()) {}
Plan::Plan(Plan&&) noexcept = default;
Plan& Plan::operator=(Plan&&) noexcept = default;
Plan::~Plan() = default;

/// The last file that begins at or before `number`, which becomes the number inside it.
const Plan::File& Plan::file_of(std::size_t& number, std::size_t File::* begin,
                                std::size_t& file) const {
  file = begins_.size() - 1;
  while (begins_[file].*begin > number) --file;
  number -= begins_[file].*begin;
  return begins_[file];
}

std::size_t Plan::num_points() const {
  return begins_.empty() ? 0 : begins_.back().point + files.back().num_points();
}

PlannedRun Plan::run(std::size_t id) const {
  PlannedRun run;
  const File& begins = file_of(id, &File::run, run.file);
  const ScenarioFile& file = files[run.file];
  run.point = id / file.runs_per_point();
  const std::size_t rest = id % file.runs_per_point();
  run.choice = rest / file.seeds.size();
  run.placer = begins.placer + run.choice;
  run.seed = file.seeds[rest % file.seeds.size()];
  const PointBlocks b = file.blocks(run.point);
  run.graph = begins.graph + (b.graph * file.transforms.size() + b.transforms) * begins.num_kinds +
              begins.kinds[b.cluster];
  run.problem = begins.problem + run.point / (file.engines.size() * file.profiles.size());
  return run;
}

Plan::Ids Plan::runs_of(std::size_t point) const {
  std::size_t file = 0;
  const File& begins = file_of(point, &File::point, file);
  const std::size_t each = files[file].runs_per_point();
  return {begins.run + point * each, begins.run + (point + 1) * each};
}

std::shared_ptr<const PlannedProblem> Plan::problem(const PlannedRun& run) const {
  return problems_->of(run.problem, [&] {
    const ScenarioFile& file = files[run.file];
    const ClusterChoice& choice = file.clusters[file.blocks(run.point).cluster];
    auto problem = make_problem(choice, graphs[run.graph]);
    Hash devices;
    devices.add(static_cast<std::int64_t>(run.graph));
    for (const DeviceChoice& d : choice.devices) {
      devices.add(static_cast<std::int64_t>(d.count));
      devices.add(d.kind);
      devices.add(d.speed);
    }
    add(devices, choice.calibration);
    problem->lower_bound = *lower_bounds_->of(devices.value(), [&] {
      const LowerBounds bounds =
          lower_bounds(*graphs[run.graph].step, problem->cluster, *problem->costs);
      return std::make_shared<const Duration>(bounds.best());
    });
    return std::shared_ptr<const PlannedProblem>(std::move(problem));
  });
}

std::uint64_t Plan::key(std::size_t id) const {
  const PlannedRun planned = run(id);
  const ScenarioFile& file = files[planned.file];
  const PointBlocks b = file.blocks(planned.point);
  Hash hash;
  hash.add(header.version);
  hash.add(static_cast<std::int64_t>(graph_hash_[planned.graph]));
  add(hash, file.clusters[b.cluster]);
  add(hash, file.engines[b.engine]);
  add(hash, file.profiles[b.profile]);
  hash.add(file.placers[planned.choice].text);
  hash.add(static_cast<std::int64_t>(planned.seed));
  hash.add(std::int64_t{file.report.placements});
  return hash.value();
}

RunResult Plan::row(std::size_t id) const {
  const PlannedRun planned = run(id);
  const ScenarioFile& file = files[planned.file];
  const Scenario point = file.point(planned.point);
  RunResult row;
  row.id = id;
  row.key = key(id);
  row.scenario = planned.file;
  row.graph = graph_record[planned.graph];
  row.placer = file.placers[planned.choice].label;
  row.seed = planned.seed;
  row.memory_fraction = point.cluster.memory_fraction;
  for (const DeviceChoice& d : point.cluster.devices) {
    row.devices += d.count;
    row.memory = std::max(row.memory, d.usable(point.cluster.memory_fraction));
  }
  row.transfers = point.engine.transfers;
  row.at.resize(header.axes.size());
  for (std::size_t i = 0; i < file.axes.size(); ++i) {
    const auto axis = std::ranges::find(header.axes, file.axes[i]) - header.axes.begin();
    row.at[static_cast<std::size_t>(axis)] = point.at[i];
  }
  return row;
}

/// Makes a plan, each distinct thing once.
class Planner {
 public:
  Planner(std::vector<ScenarioFile> files, std::size_t threads) : threads_(threads) {
    plan_.files = std::move(files);
  }

  Plan make(Mistakes& mistakes) {
    number();
    if (findings_.size() == 0) read_traces();
    if (findings_.size() == 0) prepare_graphs();
    if (findings_.size() == 0) check_problems();
    make_placers();
    const bool whole =
        std::ranges::none_of(plan_.files, [](const auto& f) { return f.num_points() == 0; });
    if (findings_.size() == 0 && whole) describe_plan();
    findings_.pour_into(mistakes);
    return std::move(plan_);
  }

 private:
  /// A graph to make: into files, their blocks, and traces_.
  struct Wanted {
    std::size_t file, transforms, cluster, trace;
  };

  /// "v100\nk80\n": what times its devices take from a graph's work.
  static std::string kinds_of(const ClusterChoice& cluster) {
    std::string kinds;
    for (const DeviceChoice& d : cluster.devices)
      if (d.model != nullptr) kinds += d.kind + "\n";
    return kinds;
  }

  void number() {
    Plan::File next;
    for (std::size_t f = 0; f < plan_.files.size(); ++f) {
      const ScenarioFile& file = plan_.files[f];
      const std::size_t runs = file.num_points() * file.runs_per_point();
      if (next.run + runs > most_runs)
        return findings_.add(fmt::format("{}: more than {} runs", file.path, most_runs));
      Plan::File begins = next;
      std::map<std::string, std::size_t> kinds;
      std::vector<std::size_t> first;  // cluster of each of the kinds
      if (file.num_points() > 0) {
        for (std::size_t c = 0; c < file.clusters.size(); ++c) {
          const auto [it, fresh] = kinds.emplace(kinds_of(file.clusters[c]), kinds.size());
          if (fresh) first.push_back(c);
          begins.kinds.push_back(it->second);
        }
        for (const GraphChoice& graph : file.graphs) {
          for (std::size_t t = 0; t < file.transforms.size(); ++t)
            for (const std::size_t c : first) wanted_.push_back({f, t, c, sources_.size()});
          sources_.push_back(&graph);
        }
      }
      begins.num_kinds = first.size();
      plan_.begins_.push_back(std::move(begins));
      next.point += file.num_points();
      next.run += runs;
      next.graph = wanted_.size();
      next.problem += file.graphs.size() * file.transforms.size() * file.clusters.size();
      next.placer += file.placers.size();
    }
    plan_.header.planned = next.run;
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
    plan_.graphs.resize(wanted_.size());
    plan_.graph_hash_.resize(wanted_.size());
    step_hash_.resize(wanted_.size());
    gather(wanted_.size(), [&](std::size_t i) {
      const Wanted& w = wanted_[i];
      const ScenarioFile& file = plan_.files[w.file];
      plan_.graphs[i] = prepare({traces_[w.trace], &traces_[w.trace]->graph},
                                file.clusters[w.cluster], file.transforms[w.transforms]);
      step_hash_[i] = fingerprint(*plan_.graphs[i].step);
      Hash hash;
      hash.add(static_cast<std::int64_t>(step_hash_[i]));
      for (const Choice& transform : file.transforms[w.transforms]) hash.add(transform.text);
      plan_.graph_hash_[i] = hash.value();
    });
  }

  void check_problems() {
    for (std::size_t f = 0; f < plan_.files.size(); ++f) {
      const ScenarioFile& file = plan_.files[f];
      const Plan::File& begins = plan_.begins_[f];
      const std::size_t graphs = file.graphs.size() * file.transforms.size();
      std::vector<std::string> warnings(graphs * file.clusters.size());
      gather(warnings.size(), [&](std::size_t i) {
        const std::size_t cluster = i % file.clusters.size();
        const std::size_t graph =
            begins.graph + i / file.clusters.size() * begins.num_kinds + begins.kinds[cluster];
        const auto problem = make_problem(file.clusters[cluster], plan_.graphs[graph]);
        if (const auto* costs = dynamic_cast<const CalibratedCosts*>(problem->costs.get()))
          warnings[i] = costs->outside();
      });
      for (std::string& warning : warnings)
        if (!warning.empty() && std::ranges::find(plan_.warnings, warning) == plan_.warnings.end())
          plan_.warnings.push_back(std::move(warning));
    }
  }

  void make_placers() {
    for (const ScenarioFile& file : plan_.files) {
      if (file.num_points() == 0) continue;
      for (const Choice& c : file.placers)
        findings_.attempt(
            [&] { plan_.placers.push_back(make_placer(c.name, c.options, c.where)); });
    }
  }

  void describe_plan() {
    Results& header = plan_.header;
    header.version = BAECHI_VERSION;
    bool placements = false;
    for (const ScenarioFile& file : plan_.files) {
      header.scenarios.push_back({.name = file.name,
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
      const std::size_t of = wanted_[i].trace;
      const Trace& trace = *traces_[of];
      const OpGraph& graph = *plan_.graphs[i].step;
      const std::string hash = fmt::format("{:016x}", step_hash_[i]);
      const auto [it, fresh] = known.emplace(std::pair(of, hash), records.size());
      plan_.graph_record.push_back(it->second);
      if (!fresh) continue;
      text.push_back(sources_[of]->text);
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
    for (const GraphRecord& g : plan_.header.graphs) hash.add(g.name + g.hash);
    for (const ScenarioFile& file : plan_.files) {
      hash.add(file.name);
      for (const std::string& axis : file.axes) hash.add(axis);
      for (const auto& values : file.axis_values)
        for (const std::string& value : values) hash.add(value);
      for (const Choice& c : file.placers) hash.add(c.label);
    }
    for (std::size_t id = 0; id < plan_.num_runs(); ++id)
      hash.add(static_cast<std::int64_t>(plan_.key(id)));
    return fmt::format("{:016x}", hash.value());
  }

  static constexpr std::size_t most_runs = 1'000'000;

  std::size_t threads_;
  Plan plan_;
  Findings findings_;
  std::vector<const GraphChoice*> sources_;  // of the traces, as the next
  std::vector<std::shared_ptr<const Trace>> traces_;
  std::vector<Wanted> wanted_;            // as plan_.graphs
  std::vector<std::uint64_t> step_hash_;  // as plan_.graphs
};

Plan make_plan(std::vector<ScenarioFile> files, std::size_t threads, Mistakes& mistakes) {
  return Planner(std::move(files), threads).make(mistakes);
}

}  // namespace baechi
