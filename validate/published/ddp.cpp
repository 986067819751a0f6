#include <fmt/format.h>

#include <cmath>
#include <map>

#include "scenarios/read/device_table.h"
#include "sim/cluster/device_model.h"
#include "sim/engine/simulation.h"
#include "sim/error.h"
#include "sim/transform/transform.h"
#include "traces/generator.h"
#include "validate/published/measured_files.h"
#include "validate/published/published.h"

namespace baechi::validate {
namespace {

constexpr const char* gpu = "h100";  // a GH200's GPU

/// A step of `model` on one GPU that takes `alone`: the roofline's times, all scaled alike.
OpGraph step_of(const std::string& model, std::int64_t batch, Duration alone) {
  const Options::Value samples{std::to_string(batch), {}, {}};
  const OpGraph graph =
      generate_trace(model, Options(model, {{"batch", samples},
                                            {"optimizer", {"momentum", {}, {}}},
                                            {"kernels", {"fuse_modules=false", {}, {}}}}))
          .graph;
  IdVector<OpId, Duration> times = roofline_times(graph, *built_in_devices().devices.at(gpu));
  Duration total{};
  for (const Duration time : times) total += time;
  const double scale = static_cast<double>(alone.count()) / static_cast<double>(total.count());
  for (Duration& time : times)
    time = Duration{std::llround(scale * static_cast<double>(time.count()))};
  return graph.with_times(gpu, times);
}

double simulated_seconds(const OpGraph& graph, std::int64_t gpus, std::int64_t nodes) {
  const auto text = [](std::int64_t n) { return Options::Value{std::to_string(n), {}, {}}; };
  const auto parallel = make_transform(
      "data_parallel", Options("data_parallel", {{"replicas", text(gpus)},
                                                 {"nodes", text(nodes)},
                                                 {"per_gradient", {"15 us", {}, {}}}}));
  const OpGraph replica = parallel->apply(graph).graph;
  const PlacedStep step =
      parallel->after_placing(replica, IdVector<OpId, DeviceId>(replica.num_ops()));
  const Cluster cluster = cluster_of(fmt::format(
      "nodes: {{count: {}, devices: {{count: 4, kind: {}}}, link: {{kind: nvlink4}}, nics: 4, "
      "network: {{bandwidth: 25 GB/s, latency: 5 us}}}}",
      nodes, gpu));
  const ProfiledCosts costs(step.graph, cluster);
  const Problem problem{step.graph, cluster, costs, {.count_memory = false}};
  return to_us(simulate(problem, {.device = step.device}).makespan) / 1e6;
}

}  // namespace

/// What PyTorch's DDP adds to the step of one GPU, whose time without DDP is taken from the file.
std::optional<Comparison> compare_ddp(const std::string& folder) {
  Comparison all;
  const auto table = read_measured(folder, "papers/ddp_measured.csv", all.left);
  if (!table) return std::nullopt;
  const std::size_t model = table->column("model"), mode = table->column("mode"),
                    gpus = table->column("gpus"), nodes = table->column("nodes"),
                    batch = table->column("batch_per_gpu"),
                    seconds = table->column("seconds_per_step");
  struct Alone {
    OpGraph graph;
    double seconds = 0.0;
    std::string line;
  };
  std::map<std::string, Alone> alone;
  each_row(*table, all.left, [&](std::size_t row) {
    if (table->text(row, mode) != "none") return;
    const double time = table->number(row, seconds, 1e-9);
    const std::string& name = table->text(row, model);
    alone.emplace(
        name, Alone{step_of(name, table->whole(row, batch, 1), Duration{std::llround(1e9 * time)}),
                    time, line_of(*table, row)});
  });
  each_row(*table, all.left, [&](std::size_t row) {
    const std::string& name = table->text(row, model);
    if (table->text(row, mode) == "none") return;
    if (table->text(row, mode) != "ddp")
      throw InputError(fmt::format("mode '{}' is not none or ddp", table->text(row, mode)));
    if (!alone.contains(name)) throw InputError(name + " has no row of mode none");
    const std::int64_t n = table->whole(row, gpus, 1);
    const Alone& one = alone.at(name);
    all.rows.push_back({.what = fmt::format("{}, {} GPUs", name, n),
                        .group = name,
                        .measured = table->number(row, seconds),
                        .simulated = simulated_seconds(one.graph, n, table->whole(row, nodes, 1)),
                        .work = one.seconds,
                        .lines = {line_of(*table, row), one.line}});
  });
  return all;
}

}  // namespace baechi::validate
