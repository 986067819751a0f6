#include "scenarios/arena/competition.h"

#include <stdlib.h>

#include <cmath>
#include <filesystem>

#include "placers/external/child_process.h"
#include "placers/interface/registry.h"
#include "scenarios/read/choice_text.h"
#include "scenarios/run/runner.h"
#include "sim/file_aside.h"

namespace baechi {
namespace {

namespace fs = std::filesystem;

/// The baselines that run on hidden instances in addition to the competing placer.
constexpr const char* baselines[] = {"single",  "round_robin", "random",   "least_loaded",
                                     "m_topo",  "m_etf",       "m_sct",    "heft",
                                     "coarsen", "fill",        "balanced", "auto"};

/// The scenario files of the arena, by name.
std::vector<std::string> scenario_paths(const std::string& folder) {
  std::vector<std::string> paths;
  std::error_code none;
  for (const auto& entry : fs::directory_iterator(folder + "/instances", none))
    if (entry.path().extension() == ".yaml") paths.push_back(entry.path().string());
  if (paths.empty()) throw InputError(fmt::format("{}/instances: no scenario files", folder));
  std::ranges::sort(paths);
  return paths;
}

constexpr std::string_view exec = "exec:";

/// `known`: the file of best values, which is hidden from external programs; "": none.
PlacerChoice placer_choice(const std::string& text, const std::string& known) {
  PlacerChoice placer{parse_choice(text, "--placer")};
  if (placer.name.starts_with(exec)) {  // the working folder will be another one
    placer.name = fmt::format("{}{}", exec, fs::absolute(placer.name.substr(exec.size())).string());
    if (fs::exists(known)) placer.options.set("hide", {known, {}, {}});
  } else if (text.find(exec) != std::string::npos) {
    throw InputError(
        "--placer: a program competes by itself (exec:PATH), not within another placer");
  }
  placer.text = placer.label = text;
  placer.placer = make_placer(placer.name, placer.options, placer.where);
  return placer;
}

/// The hidden instances of a seed; also written to the folder `output`, unless that is "".
std::vector<ScenarioFile> hidden_files(std::uint64_t seed, const std::string& output,
                                       const Watch& making, Mistakes& mistakes) {
  const std::atomic<std::size_t> unknown{0};
  const auto shown = begin_watch(making, unknown, 0);
  std::vector<ScenarioFile> files;
  for (const ArenaFile& file : make_arena_files(seed)) {
    if (!output.empty()) {
      fs::create_directories(output + "/instances");
      write_aside(fmt::format("{}/instances/{}.yaml", output, file.name), file.text);
    }
    files.push_back(parse_scenario(file.text, file.name + ".yaml", {}, mistakes));
  }
  return files;
}

/// All instances, placed by `placers`.
Sweep sweep_of(const Competition& competition, const std::string& folder,
               const std::vector<PlacerChoice>& placers, const Watch& making) {
  Mistakes mistakes;
  std::vector<ScenarioFile> files =
      competition.hidden ? hidden_files(*competition.hidden, competition.output, making, mistakes)
                         : load_scenarios(scenario_paths(folder), {}, mistakes);
  for (ScenarioFile& file : files) {
    file.placers = placers;
    file.seeds = {1};
    file.report = {.placements = false, .pictures = 0};
  }
  Sweep sweep = make_sweep(std::move(files), competition.threads, mistakes);
  mistakes.throw_if_any();
  return sweep;
}

/// Makes an empty folder the working folder for its lifetime.
class EmptyFolder {
 public:
  EmptyFolder() : before_(fs::current_path()) {
    std::string name = (fs::temp_directory_path() / "baechi-arena-XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw InputError(name + ": cannot be made");
    folder_ = name;
    fs::current_path(folder_);
  }
  ~EmptyFolder() {
    std::error_code ignored;
    fs::current_path(before_, ignored);
    fs::remove_all(folder_, ignored);
  }
  EmptyFolder(const EmptyFolder&) = delete;
  EmptyFolder& operator=(const EmptyFolder&) = delete;

 private:
  fs::path before_, folder_;
};

std::vector<PlacerChoice> placers_of(const Competition& competition, const std::string& known) {
  std::vector<PlacerChoice> placers;
  if (competition.hidden)
    for (const char* baseline : baselines)
      if (baseline != competition.placer) placers.push_back(placer_choice(baseline, known));
  if (!competition.placer.empty()) placers.push_back(placer_choice(competition.placer, known));
  return placers;
}

Results run_placers(const Competition& competition, const std::string& folder,
                    const std::vector<PlacerChoice>& placers, const Watch& making,
                    const Watch& running) {
  const Sweep sweep = sweep_of(competition, folder, placers, making);
  const std::vector<std::size_t> ids = all_runs(sweep);
  std::atomic<std::size_t> done{0};
  const EmptyFolder empty_folder;
  const auto shown = begin_watch(running, done, ids.size());
  Results results =
      run(sweep, ids, {.threads = competition.threads, .stop = competition.stop, .done = &done});
  results.missing = ids.size() - results.rows.size();
  return results;
}

/// The protection that the kernel cannot give against `placer`, an external program; "": none.
std::string unguarded(const std::string& placer) {
  if (!placer.starts_with(exec)) return "";
  switch (external::kernel_guard()) {
    case external::Guard::nothing:
      return "this kernel has no Landlock: the program could read known.json, and send signals";
    case external::Guard::files:
      return "this kernel's Landlock is older than version 6: the program could send signals";
    case external::Guard::files_and_signals:
      break;
  }
  return "";
}

struct Family {
  std::string_view name, graph;  ///< `{}` in the graph is the seed
  std::array<std::string_view, 3> sizes;
};
constexpr std::string_view layers_text =
    "generate: layered, training: true, width: 12, compute: 60 us, bytes: 400 kB, persistent: 2 MB";
constexpr Family families[] = {
    {"cells", "generate: cells", {"size: 0.5", "size: 1", "size: 2"}},
    {"recurrent", "generate: recurrent", {"size: 0.5", "size: 1", "size: 2"}},
    {"seq2seq", "generate: seq2seq", {"size: 0.5", "size: 1", "size: 2"}},
    {"blocks", "generate: blocks", {"size: 0.5", "size: 1", "size: 2"}},
    {"layers", layers_text, {"ops: 120", "ops: 300", "ops: 700"}},
};
constexpr std::string_view size_names[] = {"small", "middle", "large"};
constexpr std::string_view cluster_names[] = {"uniform", "nodes", "mixed"};

/// The cluster as YAML: `kib` of memory on the larger devices.
std::string cluster_text(std::size_t kind, std::int64_t kib) {
  if (kind == 0)
    return fmt::format(
        "  devices: {{count: 4, kind: v100_fp32, memory: {} KiB}}\n"
        "  link: {{bandwidth: 16 GB/s, latency: 10 us}}\n",
        kib);
  if (kind == 1)
    return fmt::format(
        "  devices:\n"
        "    - {{name: left, count: 2, kind: v100_fp32, memory: {0} KiB}}\n"
        "    - {{name: right, count: 2, kind: v100_fp32, memory: {0} KiB}}\n"
        "  link: {{bandwidth: 16 GB/s, latency: 30 us}}\n"
        "  links:\n"
        "    - {{from: left, to: left, bandwidth: 100 GB/s, latency: 10 us}}\n"
        "    - {{from: right, to: right, bandwidth: 100 GB/s, latency: 10 us}}\n",
        kib);
  return fmt::format(
      "  devices:\n"
      "    - {{name: fast, count: 2, kind: v100_fp32, memory: {} KiB}}\n"
      "    - {{name: slow, count: 2, kind: v100_fp32, memory: {} KiB, speed: 0.5}}\n"
      "  link: {{bandwidth: 16 GB/s, latency: 10 us}}\n",
      kib, kib / 2);
}

std::string scenario_text(const std::string& name, std::string_view graph, std::size_t cluster,
                          std::int64_t kib) {
  return fmt::format("name: {}\ngraph: {{{}}}\ncluster:\n{}", name, graph,
                     cluster_text(cluster, kib));
}

/// Whether the step of some quick placer fits with `factor` times the memory.
bool fits(const Problem& problem, double factor) {
  Cluster cluster = problem.cluster;
  for (const DeviceId d : cluster.devices())
    cluster.set_memory(d, factor * cluster.device(d).memory);
  const Problem scaled{problem.graph, cluster, problem.costs, problem.engine};
  for (const char* name : {"m_topo", "least_loaded", "heft", "m_etf"}) {
    try {
      const Placement answer = make_placer(name)->place(scaled, 0);
      if (!simulate(scaled, answer).oom) return true;
    } catch (const InfeasibleError&) {  // tries the next
    }
  }
  return false;
}

}  // namespace

CompetitionResult compete(const Competition& competition, const Watch& making,
                          const Watch& running) {
  if (competition.hidden && competition.update_best)
    throw InputError("--update-best: hidden instances have no file of best values");
  const std::string folder = fs::absolute(competition.folder).string();
  const std::string known = folder + "/known.json";
  Arena arena = competition.hidden ? Arena{} : Arena::read(known);
  CompetitionResult result;
  if (competition.hidden || !competition.placer.empty()) {
    const std::vector<PlacerChoice> placers = placers_of(competition, known);
    const Results results = run_placers(competition, folder, placers, making, running);
    result.outcome = outcome_of(results, competition.placer);
    std::vector<std::string> improved = arena.take(results);
    if (!competition.hidden) result.improved = std::move(improved);
    result.unguarded = unguarded(competition.placer);
    result.missing = results.missing;
    if (result.missing > 0) arena.keep_run(results, placers.size());
  }
  if (competition.update_best && !competition.placer.empty() && result.missing == 0)
    arena.write(known);
  result.ranking = arena.ranking();
  result.instances = arena.size();
  result.arena = std::move(arena);
  if (competition.placer.empty()) return result;
  const auto place = std::ranges::find(result.ranking, competition.placer, &ArenaScore::placer);
  result.rank = static_cast<std::size_t>(place - result.ranking.begin()) + 1;
  return result;
}

double least_memory(const Problem& problem) {
  double most = 1.0;
  while (!fits(problem, most)) most *= 2.0;
  double least = most / 2.0;
  while (fits(problem, least)) {
    most = least;
    least /= 2.0;
  }
  while (most > 1.05 * least) {
    const double middle = std::sqrt(least * most);
    (fits(problem, middle) ? most : least) = middle;
  }
  return most;
}

std::vector<ArenaFile> make_arena_files(std::uint64_t seed, const std::function<void()>& done) {
  constexpr std::int64_t first_kib = std::int64_t{1} << 20;  // 1 GiB
  std::vector<ArenaFile> files;
  std::uint64_t number = 0;
  for (const Family& family : families) {
    for (std::size_t size = 0; size < std::size(size_names); ++size, ++number) {
      const std::size_t cluster = number % std::size(cluster_names);
      const std::string name =
          fmt::format("{}_{}.{}.v1", family.name, size_names[size], cluster_names[cluster]);
      const std::string graph =
          fmt::format("{}, seed: {}, {}", family.graph, seed * 1000 + number, family.sizes[size]);
      Mistakes mistakes;
      std::vector<ScenarioFile> one;
      one.push_back(
          parse_scenario(scenario_text(name, graph, cluster, first_kib) + "placers: [single]\n",
                         name + ".yaml", {}, mistakes));
      const Sweep sweep = make_sweep(std::move(one), 1, mistakes);
      mistakes.throw_if_any();
      const Experiment experiment = sweep.experiment(sweep.run(0));
      const double least = least_memory(experiment.problem());
      const auto kib = static_cast<std::int64_t>(2.0 * least * static_cast<double>(first_kib));
      files.push_back(
          {name,
           fmt::format("# The full memory is twice the least, to 5 %, at which a quick placer "
                       "(m_etf, heft, m_topo, least_loaded) has a\n# step that fits at 16 GB/s.\n"
                       "{}placers: [single]\n"
                       "sweep:\n"
                       "  cluster.link.bandwidth: [4 GB/s, 100 GB/s]\n"
                       "  cluster.memory_fraction: [0.525, 0.6, 0.75, 1]\n",
                       scenario_text(name, graph, cluster, kib))});
      if (done) done();
    }
  }
  return files;
}

}  // namespace baechi
