#include "scenarios/arena/instances.h"

#include <cmath>

#include "placers/interface/registry.h"
#include "scenarios/run/sweep.h"

namespace baechi {
namespace {

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
