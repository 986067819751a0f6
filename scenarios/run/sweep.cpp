#include "scenarios/run/sweep.h"

#include <list>
#include <mutex>

#include "placers/interface/registry.h"
#include "scenarios/run/hashes.h"
#include "scenarios/run/runner.h"
#include "sim/random.h"

namespace baechi {

/// Keeps the 64 most recent values. Thread-safe: a thread that requests a value that another thread
/// is computing waits for it.
template <class T>
class RecentCache {
 public:
  /// The value of `key`. If it is not kept, calls `make` and returns its result as
  /// std::shared_ptr<const T>. If `make` throws, nothing is kept.
  std::shared_ptr<const T> of(std::uint64_t key, const auto& make) {
    const std::shared_ptr<Entry> entry = entry_of(key);
    std::call_once(entry->once, [&] { entry->value = make(); });
    return entry->value;
  }

 private:
  static constexpr std::size_t most = 64;
  struct Entry {
    explicit Entry(std::uint64_t k) : key(k) {}
    const std::uint64_t key;
    std::once_flag once;
    std::shared_ptr<const T> value;
  };

  std::shared_ptr<Entry> entry_of(std::uint64_t key) {
    const std::lock_guard lock(mutex_);
    const auto it = std::ranges::find(entries_, key, [](const auto& e) { return e->key; });
    if (it != entries_.end()) return *it;
    entries_.push_front(std::make_shared<Entry>(key));
    if (entries_.size() > most) entries_.pop_back();
    return entries_.front();
  }

  std::mutex mutex_;
  std::list<std::shared_ptr<Entry>> entries_;  // most recent first
};

/// The first indices of one file's parts in the numbering over all files.
struct FileStart {
  std::size_t point = 0, run = 0, graph = 0, costed = 0;
  /// [clusters] equal numbers, 0 to num_kinds, if the graphs have the same times there.
  std::vector<std::size_t> kinds{};
  std::size_t num_kinds = 0;
  std::vector<std::uint64_t>
      devices{};  ///< [clusters] a hash of everything that affects a lower bound
};

struct SweepParts {
  std::vector<ScenarioFile> files{};
  std::vector<FileStart> starts{};   ///< [files]
  std::vector<SweepGraph> graphs{};  ///< per file: by graph, transforms, kind of cluster
  ResultsHeader header{};
  struct Hashes {
    std::uint64_t key = 0, point = 0;  ///< Sweep::key(), hash_of_point()
  };
  std::vector<Hashes> hashes{};  ///< [runs] cached, because each is used several times
  std::vector<std::string> warnings{};
  std::unique_ptr<RecentCache<CostedGraph>> costed = std::make_unique<RecentCache<CostedGraph>>();
  std::unique_ptr<RecentCache<LowerBounds>> bounds = std::make_unique<RecentCache<LowerBounds>>();
  std::unique_ptr<RecentCache<PlacerAnswer>> answers =
      std::make_unique<RecentCache<PlacerAnswer>>();

  /// `check`: also checks limits, which make_sweep() has already done for all.
  std::shared_ptr<const CostedGraph> costed_graph(std::size_t number, const SweepGraph& graph,
                                                  const ClusterChoice& cluster,
                                                  bool check = false) const {
    return costed->of(
        number, [&] { return std::make_shared<CostedGraph>(graph.prepared, cluster, check); });
  }
};

namespace {

constexpr std::size_t most_runs = 1'000'000;

/// "v100
/// k80
/// ": the device types of the table, which give a graph times from its ops' work.
std::string kinds_of(const ClusterChoice& cluster) {
  std::string kinds;
  for (const DeviceChoice& d : cluster.devices)
    if (d.model != nullptr) kinds += d.kind + "\n";
  return kinds;
}

std::string op_names(const OpGraph& graph) {
  std::string names;
  for (const OpId v : graph.ops()) names.append(graph.name(v)).append("\n");
  return names;
}

/// Builds a sweep; shared parts are built once.
class SweepMaker {
 public:
  SweepMaker(std::vector<ScenarioFile> files, std::size_t threads) : threads_(threads) {
    parts_.files = std::move(files);
  }

  Sweep make(Mistakes& mistakes) {
    const bool whole =
        std::ranges::none_of(parts_.files, [](const auto& f) { return f.num_points() == 0; });
    number();
    if (mistakes_.empty()) read_traces();
    if (mistakes_.empty()) prepare_graphs();
    if (mistakes_.empty()) check_clusters();
    if (!whole || !mistakes_.empty()) {
      mistakes_.sort_by_place();
      mistakes.add(mistakes_);
      return Sweep(SweepParts{});
    }
    describe();
    return Sweep(std::move(parts_));
  }

 private:
  /// A graph to build: indices of a file, of its sections, and of a trace.
  struct Wanted {
    std::size_t file, transforms, cluster, trace;
  };

  void number() {
    FileStart next;
    for (std::size_t f = 0; f < parts_.files.size(); ++f) {
      const ScenarioFile& file = parts_.files[f];
      const std::size_t runs = file.num_points() * file.runs_per_point();
      if (file.num_points() > 0 && file.codesign && file.placers.empty())
        mistakes_.add(fmt::format(
            "{}: it needs 'placers' (its section 'codesign' is for 'baechi codesign')", file.path));
      if (next.run + runs > most_runs)
        return mistakes_.add(fmt::format("{}: more than {} runs", file.path, most_runs));
      parts_.starts.push_back(next);
      if (file.num_points() > 0) want_graphs(f);
      next.point += file.num_points();
      next.run += runs;
      next.graph = wanted_.size();
      next.costed += file.graphs.size() * file.transforms.size() * file.clusters.size();
    }
    parts_.header.planned = next.run;
  }

  void want_graphs(std::size_t f) {
    const ScenarioFile& file = parts_.files[f];
    FileStart& start = parts_.starts[f];
    std::map<std::string, std::size_t> kinds;
    std::vector<std::size_t> first;  // cluster of each of the kinds
    for (std::size_t c = 0; c < file.clusters.size(); ++c) {
      const auto [it, fresh] = kinds.emplace(kinds_of(file.clusters[c]), kinds.size());
      if (fresh) first.push_back(c);
      start.kinds.push_back(it->second);
      start.devices.push_back(hash_of_devices(file.clusters[c]));
    }
    start.num_kinds = first.size();
    for (const GraphChoice& graph : file.graphs) {
      for (std::size_t t = 0; t < file.transforms.size(); ++t)
        for (const std::size_t c : first) wanted_.push_back({f, t, c, sources_.size()});
      sources_.push_back(&graph);
    }
  }

  /// Runs `work` for each number in parallel; mistakes are added in the order of the numbers.
  void gather(std::size_t count, const std::function<void(std::size_t)>& work) {
    std::vector<std::string> wrong(count);
    for_each_in_parallel(count, threads_, nullptr, [&](std::size_t i) {
      try {
        work(i);
      } catch (const std::exception& e) {
        wrong[i] = e.what();
      }
    });
    for (const std::string& lines : wrong) mistakes_.add(lines);
  }

  static std::string source_of(const GraphChoice& choice) {
    return choice.generate ? choice.generate->name : choice.file;
  }

  void read_traces() {
    traces_.resize(sources_.size());
    gather(sources_.size(), [&](std::size_t i) {
      traces_[i] = std::make_shared<const Trace>(load_graph(*sources_[i]));
    });
  }

  void prepare_graphs() {
    parts_.graphs.resize(wanted_.size());
    step_hash_.resize(wanted_.size());
    gather(wanted_.size(), [&](std::size_t i) {
      const Wanted& w = wanted_[i];
      const ScenarioFile& file = parts_.files[w.file];
      SweepGraph& graph = parts_.graphs[i];
      require_times(*traces_[w.trace], file.clusters[w.cluster], source_of(*sources_[w.trace]));
      graph.prepared = std::make_shared<const PreparedGraph>(
          prepare({traces_[w.trace], &traces_[w.trace]->graph}, file.clusters[w.cluster],
                  file.transforms[w.transforms]));
      step_hash_[i] = fingerprint(*graph.prepared->step);
      Hash hash;
      hash.add(static_cast<std::int64_t>(step_hash_[i]));
      for (const Choice& transform : file.transforms[w.transforms]) hash.add(transform.text);
      graph.hash = hash.value();
    });
  }

  /// Checks every graph on every cluster; the most recent are kept for the runs.
  void check_clusters() {
    for (std::size_t f = 0; f < parts_.files.size(); ++f) {
      const ScenarioFile& file = parts_.files[f];
      const FileStart& start = parts_.starts[f];
      std::vector<std::string> warnings(file.graphs.size() * file.transforms.size() *
                                        file.clusters.size());
      const auto graph_of = [&](std::size_t i) {
        return start.graph + i / file.clusters.size() * start.num_kinds +
               start.kinds[i % file.clusters.size()];
      };
      std::vector<std::uint64_t> times;  // [clusters]: a hash
      for (const ClusterChoice& cluster : file.clusters) times.push_back(hash_of_times(cluster));
      std::set<std::pair<std::size_t, std::uint64_t>> seen;
      std::vector<bool> new_times;  // whether the times of this pair occur first here
      for (std::size_t i = 0; i < warnings.size(); ++i)
        new_times.push_back(seen.emplace(graph_of(i), times[i % times.size()]).second);
      gather(warnings.size(), [&](std::size_t i) {
        const std::size_t cluster = i % file.clusters.size();
        const std::size_t graph = graph_of(i);
        const auto costed = parts_.costed_graph(start.costed + i, parts_.graphs[graph],
                                                file.clusters[cluster], new_times[i]);
        const PreparedGraph& prepared = *parts_.graphs[graph].prepared;
        check_together(file, file.transforms[wanted_[graph].transforms],
                       sources_[wanted_[graph].trace]->where, costed);
        const Trace& trace = *traces_[wanted_[graph].trace];
        const std::string& name = trace.name;
        for (const std::string& note : trace.notes)
          if (note.starts_with("warning: "))
            warnings[i] += fmt::format("graph '{}': {}\n", name, note.substr(note.find(' ') + 1));
        if (!prepared.assumed_kind.empty())
          warnings[i] += fmt::format(
              "graph '{}' has no measured times and the devices have no type: times are those of "
              "{}\n",
              name, prepared.assumed_kind);
        if (!prepared.kind_without_times.empty())
          warnings[i] +=
              fmt::format("graph '{}' has one time per op for all device types: none is of '{}'\n",
                          name, prepared.kind_without_times);
        if (const auto* costs = dynamic_cast<const CalibratedCosts*>(costed->step_costs.get()))
          warnings[i] += costs->outside();
      });
      for (std::string& warning : warnings) {
        auto& known = parts_.warnings;
        if (!warning.empty() && std::ranges::find(known, warning) == known.end())
          known.push_back(std::move(warning));
      }
    }
  }

  /// Adds the mistakes in combinations of engines, transforms and measures.
  static void check_together(const ScenarioFile& file,
                             const std::vector<TransformChoice>& transforms,
                             const std::string& graph_at,
                             const std::shared_ptr<const CostedGraph>& costed) {
    Mistakes mistakes;
    const auto attempt = [&](const std::string& where, const auto& check) {
      try {
        check();
      } catch (const InputError& e) {
        mistakes.add(at(where) + e.what());
      }
    };
    const PreparedGraph& graph = *costed->graph;
    const std::string& transformed_at =
        graph.after_placing.empty() ? graph_at : transforms.back().where;
    std::optional<ExperimentStep> step;  // of some placement
    attempt(transformed_at, [&] {
      const Placement any{.device = IdVector<OpId, DeviceId>(graph.step->num_ops(), DeviceId{})};
      try {
        step.emplace(costed, EngineOptions{}, any);
      } catch (const InfeasibleError&) {  // may be feasible on another placement
      }
    });
    for (const PlacerChoice& placer : file.placers)
      attempt(placer.where, [&] {
        if (const auto why = refusal(placer_entry(placer.name), *graph.placed))
          throw InputError(*why);
        check_replicas(graph, *placer.placer);
        placer.placer->check({*graph.placed, costed->cluster, *costed->placed_costs, {}});
      });
    for (const EngineOptions& engine : file.engines) {
      attempt(transformed_at, [&] {
        check_engine(graph, costed->cluster, engine);
        check_factors(*graph.step, costed->cluster, *costed->step_costs, engine);
      });
      const auto check = [&](const MeasureChoice& measure, bool replicates) {
        const Problem made = step ? step->problem() : Experiment(costed, {}).problem();
        measure.measure->check({made.graph, made.cluster, made.costs, engine}, graph.after_placing,
                               replicates);
      };
      for (const MeasureChoice& measure : file.measures) {
        attempt(measure.where, [&] { check(measure, false); });
        for (const PlacerChoice& placer : file.placers)
          if (placer.placer->replicates()) attempt(placer.where, [&] { check(measure, true); });
      }
    }
    mistakes.throw_if_any();
  }

  void describe() {
    ResultsHeader& header = parts_.header;
    header.version = BAECHI_VERSION;
    bool placements = false;
    for (const ScenarioFile& file : parts_.files) {
      header.scenarios.push_back({.name = file.name,
                                  .path = file.path,
                                  .text = file.text,
                                  .sets = fmt::format("{}", fmt::join(file.sets, "\n"))});
      for (const std::string& axis : file.axes)
        if (std::ranges::find(header.axes, axis) == header.axes.end()) header.axes.push_back(axis);
      placements = placements || file.report.placements;
    }
    describe_graphs(placements);
  }

  /// A record per graph that is simulated; graphs that only placers see have none.
  void describe_graphs(bool placements) {
    std::vector<GraphRecord>& records = parts_.header.graphs;
    std::map<std::pair<std::size_t, std::string>, std::size_t> known;  // (trace, hash)
    std::map<std::string, std::set<std::string>> texts;                // of the graphs of a name
    std::vector<std::string> text;                                     // per record
    for (std::size_t i = 0; i < parts_.graphs.size(); ++i) {
      const std::size_t of = wanted_[i].trace;
      const Trace& trace = *traces_[of];
      const OpGraph& graph = *parts_.graphs[i].prepared->step;
      const std::string hash = fmt::format("{:016x}", step_hash_[i]);
      const auto [it, fresh] = known.emplace(std::pair(of, hash), records.size());
      parts_.graphs[i].record = it->second;
      if (!fresh) continue;
      text.push_back(sources_[of]->text);
      texts[trace.name].insert(text.back());
      records.push_back({.name = trace.name,
                         .label = trace.name,
                         .hash = hash,
                         .ops = graph.num_ops(),
                         .edges = graph.num_edges(),
                         .batch = saturated(parts_.graphs[i].prepared->batches *
                                            static_cast<double>(trace.batch)),
                         .source = trace.source,
                         .format = trace.format,
                         .op_names = placements ? op_names(graph) : ""});
    }
    // Graphs with the same name are distinguished by the text of their section.
    for (std::size_t i = 0; i < records.size(); ++i)
      if (texts[records[i].name].size() > 1) records[i].label += " " + text[i];
  }

  std::size_t threads_;
  SweepParts parts_;
  Mistakes mistakes_;
  std::vector<const GraphChoice*> sources_;  // [traces]
  std::vector<std::shared_ptr<const Trace>> traces_;
  std::vector<Wanted> wanted_;            // [parts_.graphs]
  std::vector<std::uint64_t> step_hash_;  // [parts_.graphs]
};

std::uint64_t key_of(const Run& run, std::uint64_t point, std::string_view version) {
  Hash hash;
  hash.add(version);
  hash.add(static_cast<std::int64_t>(point));
  hash.add(run.placer.text);
  hash.add(static_cast<std::int64_t>(run.seed));
  hash.add(std::int64_t{run.file.report.placements});
  if (run.measure.text != default_measure) hash.add(run.measure.text);
  return hash.value();
}

/// The index in `starts` of the file that contains `number`; `number` becomes its index in that
/// file.
std::size_t file_of(std::span<const FileStart> starts, std::size_t FileStart::* begin,
                    std::size_t& number) {
  std::size_t file = starts.size() - 1;
  while (starts[file].*begin > number) --file;
  number -= starts[file].*begin;
  return file;
}

}  // namespace

Sweep make_sweep(std::vector<ScenarioFile> files, std::size_t threads, Mistakes& mistakes) {
  return SweepMaker(std::move(files), threads).make(mistakes);
}

Sweep::Sweep(SweepParts parts) : parts_(std::make_unique<SweepParts>(std::move(parts))) {
  parts_->hashes.reserve(num_runs());
  for (std::size_t id = 0; id < num_runs(); ++id) {
    const Run r = run(id);
    const std::uint64_t point = hash_of_point(r.graph.hash, r.cluster, r.engine, r.profile);
    parts_->hashes.push_back({.key = key_of(r, point, header().version), .point = point});
  }
  parts_->header.hash = hash_of_runs();
}
Sweep::Sweep(Sweep&&) noexcept = default;
Sweep& Sweep::operator=(Sweep&&) noexcept = default;
Sweep::~Sweep() = default;

std::span<const ScenarioFile> Sweep::files() const { return parts_->files; }

const ResultsHeader& Sweep::header() const { return parts_->header; }

std::span<const std::string> Sweep::warnings() const { return parts_->warnings; }

std::size_t Sweep::num_points() const {
  return parts_->starts.empty() ? 0
                                : parts_->starts.back().point + parts_->files.back().num_points();
}

Run Sweep::run(std::size_t id) const {
  std::size_t in_file = id;
  const std::size_t number = file_of(parts_->starts, &FileStart::run, in_file);
  const ScenarioFile& file = parts_->files[number];
  const FileStart& start = parts_->starts[number];
  const std::size_t point = in_file / file.runs_per_point();
  const std::size_t rest = in_file % file.runs_per_point();
  const std::size_t answer = rest / file.measures.size();  // index of the placement in the point
  const PointSections b = file.sections(point);
  const std::size_t graph = start.graph +
                            (b.graph * file.transforms.size() + b.transforms) * start.num_kinds +
                            start.kinds[b.cluster];
  Hash bound_of;
  bound_of.add(static_cast<std::int64_t>(graph));
  bound_of.add(static_cast<std::int64_t>(start.devices[b.cluster]));
  return {.id = id,
          .scenario = number,
          .point = point,
          .file = file,
          .graph = parts_->graphs[graph],
          .cluster = file.clusters[b.cluster],
          .engine = file.engines[b.engine],
          .profile = file.profiles[b.profile],
          .placer = file.placers[answer / file.seeds.size()],
          .seed = file.seeds[answer % file.seeds.size()],
          .measure = file.measures[rest % file.measures.size()],
          .placed = id - rest % file.measures.size(),
          .costed = start.costed + point / (file.engines.size() * file.profiles.size()),
          .bound_of = bound_of.value()};
}

Sweep::Ids Sweep::runs_of(std::size_t point) const {
  const std::size_t file = file_of(parts_->starts, &FileStart::point, point);
  const std::size_t each = parts_->files[file].runs_per_point();
  const std::size_t begin = parts_->starts[file].run + point * each;
  return {begin, begin + each};
}

Experiment Sweep::experiment(const Run& run) const {
  return {parts_->costed_graph(run.costed, run.graph, run.cluster), run.engine, run.profile};
}

LowerBounds Sweep::lower_bounds(const Run& run) const {
  // The bounds do not depend on links and memory.
  return *parts_->bounds->of(run.bound_of, [&] {
    const auto costed = parts_->costed_graph(run.costed, run.graph, run.cluster);
    return std::make_shared<const LowerBounds>(
        baechi::lower_bounds(*costed->graph->step, costed->cluster, *costed->step_costs));
  });
}

std::shared_ptr<const PlacerAnswer> Sweep::answer(
    const Run& run, const std::function<PlacerAnswer()>& place) const {
  const auto make = [&] { return std::make_shared<const PlacerAnswer>(place()); };
  return run.file.measures.size() == 1 ? make() : parts_->answers->of(run.placed, make);
}

std::uint64_t Sweep::key(const Run& run) const { return parts_->hashes[run.id].key; }

RunResult Sweep::row(const Run& run) const {
  RunResult row;
  row.id = run.id;
  row.key = key(run);
  row.point = parts_->hashes[run.id].point;
  row.scenario = run.scenario;
  row.graph = run.graph.record;
  row.placer = run.placer.label;
  row.seed = run.seed;
  row.measure = run.measure.label;
  row.unit = run.measure.unit;
  row.memory_fraction = run.cluster.memory_fraction;
  for (const DeviceChoice& d : run.cluster.devices) {
    row.devices += d.count;
    row.memory = std::max(row.memory, d.usable(run.cluster.memory_fraction));
  }
  row.transfers = run.engine.transfers;
  row.at.resize(header().axes.size());
  const std::vector<std::string> at = run.file.point(run.point).at;
  for (std::size_t i = 0; i < at.size(); ++i) {
    const auto axis = std::ranges::find(header().axes, run.file.axes[i]) - header().axes.begin();
    row.at[static_cast<std::size_t>(axis)] = at[i];
  }
  return row;
}

/// A hash of everything that determines the rows; paths of files are excluded.
std::string Sweep::hash_of_runs() const {
  Hash hash;
  for (const GraphRecord& g : header().graphs) hash.add(g.name + g.hash);
  for (const ScenarioFile& file : parts_->files) {
    hash.add(file.name);
    for (const std::string& axis : file.axes) hash.add(axis);
    for (const auto& values : file.axis_values)
      for (const std::string& value : values) hash.add(value);
    for (const Choice& c : file.placers) hash.add(c.label);
  }
  for (const auto& [key, point] : parts_->hashes) hash.add(static_cast<std::int64_t>(key));
  return fmt::format("{:016x}", hash.value());
}

}  // namespace baechi
