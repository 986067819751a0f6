#include <map>

#include "sim/engine/simulation.h"
#include "sim/error.h"
#include "sim/transform/graph_copy.h"
#include "sim/transform/transform.h"
#include "traces/generator.h"
#include "validate/published/examples.h"
#include "validate/published/measured_files.h"

namespace baechi::validate {
namespace {

using Settings = std::map<std::string, std::string>;

Options options_of(const std::string& owner, const Settings& settings) {
  Options options(owner);
  Options::Value kernels;
  for (const auto& [key, text] : settings)
    if (key.starts_with("kernels."))
      kernels.children.emplace_back(key.substr(sizeof "kernels"), Options::Value{text, ""});
    else
      options.set(key, {.text = text, .where = "", .children = {}});
  if (!kernels.children.empty()) options.set("kernels", std::move(kernels));
  return options;
}

struct Generated {
  std::string generator;
  Settings settings;
};

/// The generator of the row's model and what it is given; an empty name if there is none.
Generated generated(const ExampleRow& row) {
  const auto batch = [](std::int64_t samples) { return fmt::to_string(samples); };
  if (row.model == "resnet50") return {"resnet50", {{"batch", batch(row.batch)}}};
  if (row.model == "resnet101") return {"resnet101", {{"batch", batch(row.batch)}}};
  if (row.model == "resnext101-32x4d") return {"resnext101", {{"batch", batch(row.batch)}}};
  if (row.model == "se-resnext101-32x4d") return {"se_resnext101", {{"batch", batch(row.batch)}}};
  if (row.model == "gnmt-v2")
    return {"gnmt",
            {{"batch", batch(row.batch)},
             {"length", "27"},
             {"hidden_size", "1024"},
             {"vocab_size", "32320"},
             {"level", row.base_framework().starts_with("tensorflow") ? "tf1" : "module"}}};
  if (row.model == "transformer-big")
    return {"transformer",
            {{"batch", batch(std::max<std::int64_t>(row.batch / 32, 1))},
             {"length", "32"},
             {"hidden_size", "1024"},
             {"num_attention_heads", "16"},
             {"intermediate_size", "4096"},
             {"vocab_size", "33712"},
             {"shared_embeddings", "true"},
             {"optimizer", "adam"}}};
  if (!row.model.starts_with("bert-large") && !row.model.starts_with("bert-base")) return {};
  Settings bert{{"size", "large"},
                {"batch", batch(row.batch)},
                {"length", fmt::to_string(row.length > 0 ? row.length : 384)}};
  if (row.model.starts_with("bert-base")) bert["size"] = "base";
  // NVIDIA's fine-tuning fuses its optimizer in PyTorch's mixed precision alone.
  const bool torch = row.base_framework() == "pytorch";
  const bool fused = row.base_framework() == "tensorflow+xla" || (torch && row.mixed());
  if (row.model.ends_with("squad") && row.training && !fused) bert["kernels.eager"] = "true";
  if (torch) {
    bert["kernels.torch"] = "true";
    bert["kernels.eager"] = "true";
    if (fused || !row.model.ends_with("squad")) bert["kernels.fused_optimizer"] = "true";
  }
  if (row.model.ends_with("squad"))
    bert["answers"] = "true";
  else
    bert["masked"] = row.length >= 512 ? "80" : "20";
  return {"bert", std::move(bert)};
}

/// Tensor cores read images channels last. A convolution of images in another order copies its
/// inputs and outputs: each is read and written once more.
OpGraph with_copies(const OpGraph& graph) {
  GraphCopy copy(graph);
  IdVector<TensorId, TensorId> tensors(graph.num_tensors());
  for (const OpId v : graph.ops()) {
    const OpId made = copy.add(v, copy.spec(v));
    copy.add_kernels(v, made);
    const std::string_view kind = graph.kind(v);
    const bool convolves = kind.starts_with("Conv2d") || kind.starts_with("GroupedConv2d");
    for (const OpWork& work : graph.kernels(v))
      if (convolves && work.matrix.kind != MatrixKind::none && work.precision == Precision::fp16)
        copy.builder().add_kernel(made, {.traffic = 2 * work.traffic, .precision = work.precision});
    for (const TensorId t : graph.outputs(v))
      if (!graph.tensor(t).control) tensors[t] = copy.add_tensor(t, made, graph.tensor(t).size);
  }
  copy.add_edges(tensors);
  return std::move(copy).built().graph;
}

OpGraph graph_of(const ExampleRow& row, Settings extra) {
  Generated made = generated(row);
  made.settings.merge(extra);
  made.settings["kernels.fuse_modules"] = "false";
  const bool fuses = row.base_framework() == "mxnet" || row.base_framework() == "tensorflow+xla";
  if (fuses && !made.settings.contains("level")) made.settings["kernels.fuse_relu"] = "true";
  made.settings["training"] = row.training ? "true" : "false";
  OpGraph graph = generate_trace(made.generator, options_of(made.generator, made.settings)).graph;
  if (row.precision == "fp32") return graph;
  Options precision = options_of("precision", {{"to", row.mixed() ? "amp" : row.precision}});
  precision.set("except", {.text = "loss", .where = "", .children = {}});
  graph = make_transform("precision", std::move(precision))->apply(graph).graph;
  return row.mixed() && !row.channels_last ? with_copies(graph) : graph;
}

}  // namespace

bool has_model(const ExampleRow& row) {
  return !generated(row).generator.empty();
}

ExampleStep example_step(const ExampleRow& row) {
  if (!row.training) return {.pass = graph_of(row, {}), .update = {}};
  return {.pass = row.passes > 1 ? graph_of(row, {{"optimizer", "none"}}) : OpGraph{},
          .update = graph_of(row, {})};
}

Duration simulated_step(const ExampleRow& row, const OpGraph& graph, const DeviceModel& device) {
  const std::string nodes = row.gpus > 1 ? nodes_of(row) : "";
  Cluster cluster = nodes.empty() ? Cluster::uniform(1, device.memory, Link{})
                                  : cluster_of(fmt::format("nodes: {}", nodes));
  const OpGraph timed =
      graph.with_times(cluster.device(DeviceId{}).kind, roofline_times(graph, device));
  const auto host = make_transform(
      "host", options_of("host", {{"launch", fmt::format("{} ns", device.host_op.count())},
                                  {"step", fmt::format("{} ns", device.host_step.count())}}));
  PlacedStep step =
      host->after_placing(timed, IdVector<OpId, DeviceId>(timed.num_ops(), DeviceId{0}));
  if (row.gpus > 1) {
    const auto parallel = make_transform(
        "data_parallel", options_of("data_parallel", {{"replicas", fmt::to_string(row.gpus)},
                                                      {"nodes", fmt::to_string(row.nodes)},
                                                      {"mode", row.passes > 1 ? "after" : "ddp"}}));
    step = parallel->after_placing(step.graph, step.device);
  }
  const ProfiledCosts costs(step.graph, cluster);
  return simulate({.graph = step.graph,
                   .cluster = cluster,
                   .costs = costs,
                   .engine = {.queue = ReadyOrder::program,
                              .enforce_memory = false,
                              .count_memory = false}},
                  {.device = step.device})
      .makespan;
}

double flops_of(const ExampleRow& row, const ExampleStep& step) {
  const auto flops = [](const OpGraph& graph) {
    double sum = 0.0;
    for (const OpId v : graph.ops())
      for (const OpWork& work : graph.kernels(v)) sum += static_cast<double>(work.flops);
    return sum;
  };
  return flops(step.update) +
         static_cast<double>(row.training ? row.passes - 1 : 1) * flops(step.pass);
}

double simulated_seconds(const ExampleRow& row, const DeviceModel& device) {
  return simulated_seconds(row, example_step(row), device);
}

double simulated_seconds(const ExampleRow& row, const ExampleStep& step,
                         const DeviceModel& device) {
  const auto seconds = [](Duration time) { return to_us(time) / 1e6; };
  if (!row.training) return seconds(simulated_step({}, step.pass, device));
  double time = seconds(simulated_step(row, step.update, device));
  if (row.passes > 1)
    time += static_cast<double>(row.passes - 1) * seconds(simulated_step({}, step.pass, device));
  return time;
}

}  // namespace baechi::validate
