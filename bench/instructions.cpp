/// Runs one thing once, by name, so that valgrind's callgrind counts its instructions, which do not
/// depend on how busy the machine is. Only instructions inside measured() are counted. Prints how
/// many items it did: ops, points of a sweep, calls of a recording. bench/instructions.txt has the
/// ceilings per item.
#include <unistd.h>

#include <filesystem>

#include "bench/point_sweep.h"
#include "bench/trace_texts.h"
#include "placers/interface/registry.h"
#include "scenarios/planning/plan_search.h"
#include "scenarios/read/device_table.h"
#include "sim/objective/step_estimate.h"
#include "traces/importer.h"

namespace baechi::bench {
[[gnu::noinline]] void measured(const std::function<void()>& run) { run(); }

namespace {

std::int64_t steps(EngineOptions engine) {
  const OpGraph& graph = layered(20000);
  const Cluster eight = cluster(8);
  const ProfiledCosts costs(graph, eight);
  Simulator simulator({graph, eight, costs, engine});
  const Placement placement = mostly_local(graph, 8);
  measured([&] { simulator.run(placement); });
  return std::ssize(placement.device.ids());
}

std::int64_t place(std::string_view name, std::int64_t num_ops) {
  const OpGraph& graph = layered(num_ops);
  const Cluster eight = cluster(8);
  const ProfiledCosts costs(graph, eight);
  const auto placer = make_placer(name);
  measured([&] { placer->place({graph, eight, costs}, 0); });
  return num_ops;
}

/// Items are ops of one of the sixteen placements.
std::int64_t estimates() {
  const OpGraph& graph = layered(20000);
  const Cluster eight = cluster(8);
  const ProfiledCosts costs(graph, eight);
  StepEstimate batch({graph, eight, costs});
  for (std::size_t lane = 0; lane < StepEstimate::lanes; ++lane)
    batch.place(lane, mostly_local(graph, 8));
  std::vector<OpId> order;
  for (const OpId v : graph.ops()) order.push_back(v);
  measured([&] { batch.run(order); });
  return std::ssize(order) * static_cast<std::int64_t>(StepEstimate::lanes);
}

std::int64_t points_to_files() {
  const std::string folder =
      std::filesystem::temp_directory_path() / fmt::format("baechi-instructions-{}", getpid());
  measured([&] { run_to_files(many_points(2000), folder, 1); });
  std::filesystem::remove_all(folder);
  return 2000;
}

std::int64_t read(std::string_view importer, const std::string& text) {
  std::size_t ops = 0;
  measured([&] {
    TextFile file("text", text);
    ops = read_trace(file, importer).graph.num_ops();
  });
  return static_cast<std::int64_t>(ops);
}

/// A step under parallelism: its lower bound, and its simulation. Items are ops of micro-batches.
std::int64_t plan() {
  const auto text = [](std::string word) {
    return Options::Value{.text = std::move(word), .where = {}, .children = {}};
  };
  const TrainingJob job{.generator = "gpt",
                        .options = Options("gpt", {{"num_hidden_layers", text("8")},
                                                   {"hidden_size", text("256")},
                                                   {"num_attention_heads", text("4")},
                                                   {"length", text("128")},
                                                   {"vocab_size", text("1000")}}),
                        .batch = 64};
  const ParallelPlan plan{.tensor = 2, .data = 2, .pipeline = 4};
  const DeviceModel& gpu = *built_in_devices().devices.at("a100_megatron");
  const OpGraph rank = rank_graph(job, plan);
  const auto sixteen = std::make_shared<const Cluster>(cluster(16));
  std::size_t ops = 0;
  measured([&] {
    const ParallelStep step(rank, job, plan, sixteen);
    least_step(step, gpu);
    step.simulated(gpu, true);
    ops = step.graph().num_ops();
  });
  return static_cast<std::int64_t>(ops) * plan.micro_batches(job.batch);
}

int count(const std::string& name) {
  const std::map<std::string, std::function<std::int64_t()>> all{
      {"simulate", [] { return steps({}); }},
      {"simulate_without_accounting", [] { return steps({.count_memory = false}); }},
      {"simulate_original", [] { return steps({.semantics = Semantics::baechi}); }},
      {"m_topo", [] { return place("m_topo", 20000); }},
      {"m_etf", [] { return place("m_etf", 20000); }},
      {"m_sct", [] { return place("m_sct", 2000); }},
      {"batch_estimate", [] { return estimates(); }},
      {"sweep_to_files", [] { return points_to_files(); }},
      {"plan", [] { return plan(); }},
      {"native", [] { return read("baechi", native_text(20000)); }},
      {"hlo", [] { return read("hlo", hlo_text(20000)); }},
      {"kineto", [] { return read("kineto", kineto_text(20000)); }},
  };
  const auto it = all.find(name);
  if (it == all.end()) return 2;
  fmt::print("{}\n", it->second());
  return 0;
}

}  // namespace
}  // namespace baechi::bench

int main(int argc, char** argv) { return argc == 2 ? baechi::bench::count(argv[1]) : 2; }
