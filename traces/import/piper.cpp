#include <algorithm>
#include <cmath>
#include <ranges>

#include "traces/format/json.h"
#include "traces/import/piper_file.h"
#include "traces/importer.h"

namespace baechi {
namespace {

// Decisions:
// - Every node has the degree and mode of the options `degree` and `mode`.
// - A node is one op, forward and backward: its time is timePerSample.
// - memoryUsageB stays on the device, memoryUsageA is needed per micro-batch in flight. A step has
//   one micro-batch: the sum of both becomes persistent bytes.
// - A node has one output, the largest of its edges' sizes. The gradients of the backward pass, of
//   the same size, are not in the graph.

class PiperImport {
 public:
  PiperImport(TextFile& file, Options& options)
      : path_(file.path()),
        degree_(
            options.get("degree", std::int64_t{1}, "degree of tensor parallelism of every op", 1)),
        mode_(options.get("mode", {"vanilla", "activation recomp"},
                          "mode of every op; activation recomp recomputes activations in the "
                          "backward pass and keeps less memory")),
        second_(options.get("time_unit", {"s", "ms"},
                            "unit of the file's times; the released gnmt and resnet are in "
                            "milliseconds, bert32a100 in seconds") == "s"
                    ? 1e6
                    : 1e3),
        text_(file.rest()),
        json_(path_, text_),
        file_(read_piper_file(json_)) {}

  Trace trace();

 private:
  const PiperMode* mode_of(const PiperNode& node);
  void add_op(const PiperNode& node);
  void add_edges();
  Bytes size(double bytes, const PiperNode& node);

  std::string path_;
  std::int64_t degree_;
  std::string mode_;
  double second_;  // microseconds per unit of time
  std::string text_;
  JsonFile json_;
  PiperFile file_;
  OpGraphBuilder builder_;
  std::size_t renamed_ = 0, other_mode_ = 0, several_sizes_ = 0;
};

Bytes PiperImport::size(double bytes, const PiperNode& node) {
  if (std::ceil(bytes) < 0x1p62) return {static_cast<std::int64_t>(std::ceil(bytes))};
  json_.mistake(node.offset, fmt::format("node {}: a size is not below 4 EiB", node.id));
  return {};
}

/// The node's mode for degree_ and mode_; the first mode if mode_ is missing, null if degree_ is.
const PiperMode* PiperImport::mode_of(const PiperNode& node) {
  const auto modes = node.modes.find(degree_);
  if (modes == node.modes.end()) {
    json_.mistake(node.offset, fmt::format("node {} has no mode of degree {}", node.id, degree_));
    return nullptr;
  }
  const auto wanted = std::ranges::find(modes->second, mode_, &PiperMode::id);
  if (wanted != modes->second.end()) return &*wanted;
  ++other_mode_;
  return &modes->second.front();
}

void PiperImport::add_op(const PiperNode& node) {
  if (!node.name.empty() && node.name != node.op) ++renamed_;
  OpSpec op{.name = node.op, .kind = node.name};
  if (const PiperMode* mode = mode_of(node)) {
    const auto time = from_us(mode->time * second_);
    if (!time)
      json_.mistake(node.offset, fmt::format("node {}: a time is not below 146 years", node.id));
    op.compute = time.value_or(Duration{});
    op.persistent = size(mode->stays, node) + size(mode->per_batch, node);
  }
  builder_.add_op(std::move(op));
}

void PiperImport::add_edges() {
  IdVector<OpId, TensorId> output(file_.nodes.size());
  for (const OpId v : output.ids()) {
    const PiperNode& node = file_.nodes[index(v)];
    if (node.out.empty()) continue;
    const auto bytes = [&](std::size_t e) { return file_.edges[e].bytes; };
    const auto [least, most] = std::ranges::minmax(node.out | std::views::transform(bytes));
    output[v] = builder_.add_tensor(v, size(most, node));
    several_sizes_ += least != most ? 1U : 0U;
  }
  for (const PiperEdge& edge : file_.edges)
    builder_.add_edge(output[static_cast<OpId>(edge.from)], static_cast<OpId>(edge.to));
}

Trace PiperImport::trace() {
  Trace trace{.source = "msr-fiddle/piper"};
  for (const PiperNode& node : file_.nodes) add_op(node);
  add_edges();
  ClusterHint cluster{.accelerators = static_cast<std::size_t>(file_.devices)};
  if (file_.memory < 0x1p62)
    cluster.memory = {static_cast<std::int64_t>(std::ceil(file_.memory))};
  else
    json_.mistake(std::size_t{0}, "maxMemoryPerDevice is not below 4 EiB");
  json_.finish();
  if (other_mode_ > 0)
    trace.notes.push_back(
        fmt::format("{} ops have no mode '{}': their first mode is used", other_mode_, mode_));
  if (renamed_ > 0)
    trace.notes.push_back(fmt::format("{} ops were renamed NAME#ID: the name was taken", renamed_));
  if (several_sizes_ > 0)
    trace.notes.push_back(
        fmt::format("{} ops have edges of different sizes: the largest is used", several_sizes_));
  trace.notes.emplace_back(
      "each op is forward and backward; gradients sent between ops are not in the graph");
  trace.graph = build_graph(std::move(builder_), path_);
  for (const TensorId t : trace.graph.tensors())
    cluster.transfer.push_back(
        from_us(static_cast<double>(trace.graph.tensor(t).size.count) / file_.bandwidth * 1e6)
            .value_or(Duration::max() / 4));
  trace.cluster = std::move(cluster);
  return trace;
}

}  // namespace

bool looks_like_piper(std::string_view beginning) {
  return beginning.find("\"TMPCs\"") != std::string_view::npos ||
         (beginning.find("\"maxMemoryPerDevice\"") != std::string_view::npos &&
          beginning.find("\"mbsInBatch\"") != std::string_view::npos);
}

Trace read_piper(TextFile& file, Options& options) {
  return PiperImport(file, options).trace();
}

}  // namespace baechi
