#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <set>

#include "placers/interface/registry.h"
#include "scenarios/run/build.h"
#include "scenarios/run/runner.h"
#include "scenarios/run/sweep_parts.h"
#include "sim/cluster/calibration.h"
#include "sim/error.h"
#include "sim/random.h"
#include "sim/units.h"

namespace baechi {
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
        mistakes_.add(
            fmt::format("{}: it needs 'placers' (its section 'codesign' is for 'baechi "
                        "codesign')",
                        file.path));
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

}  // namespace

Sweep make_sweep(std::vector<ScenarioFile> files, std::size_t threads, Mistakes& mistakes) {
  return SweepMaker(std::move(files), threads).make(mistakes);
}

}  // namespace baechi
