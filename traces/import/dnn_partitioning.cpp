#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "traces/format/json.h"
#include "traces/importer.h"

namespace baechi {
namespace {

// The format, as its authors' programs read it: nodes {name, id, supportedOnFpga, cpuLatency,
// fpgaLatency (ms), isBackwardNode, colorClass, layerId, size (bytes)} and edges {sourceId, destId,
// cost (ms), size (bytes)}. "FPGA" is any accelerator. Source: Tarnawski et al., NeurIPS 2020, and
// its repository msr-fiddle/dnn-partitioning.
//
// Decisions: a node's size is all that stays while the model is trained, weights and activations
// alike, and becomes persistent bytes; outputs come on top while they live. A node has one output,
// the largest of the sizes its edges state (the released training LayerGraphs state several).

constexpr std::string_view file_names[] = {"nodes", "edges", "maxSizePerFPGA", "maxFPGAs",
                                           "maxCPUs"};
constexpr JsonKeys file_keys{"the file", file_names, 2};
constexpr std::string_view node_names[] = {"id",         "cpuLatency",      "fpgaLatency",
                                           "name",       "supportedOnFpga", "isBackwardNode",
                                           "colorClass", "layerId",         "size"};
constexpr JsonKeys node_keys{"a node", node_names, 3};
constexpr std::string_view edge_names[] = {"sourceId", "destId", "cost", "size"};
constexpr JsonKeys edge_keys{"an edge", edge_names, 4};

constexpr const char* accelerator = "accelerator";
constexpr const char* cpu = "cpu";

/// Milliseconds, scaled, to nanoseconds.
Duration milliseconds(Json value, double scale = 1.0) {
  const auto time = from_us(value.number() * scale * 1e3);
  if (!time) value.is_not("a time below 146 years");
  return time.value_or(Duration{});
}

/// Bytes that may be written with a fraction, rounded up.
Bytes rounded_up(Json value) {
  const double bytes = std::ceil(value.number());
  if (bytes < 0x1p62) return {static_cast<std::int64_t>(bytes)};
  value.is_not("a size below 4 EiB");
  return {};
}

class DnnPartitioningReader {
 public:
  DnnPartitioningReader(TextFile& file, Options& options)
      : path_(file.path()),
        measured_(options.get("transfers", {"link", "measured"},
                              "link: sizes over the link model; measured: the file's costs as "
                              "times, as always on the file's own cluster") == "measured"),
        cost_scale_(options.get("cost_unit", {"ms", "s"},
                                "of the file's costs; the released throughput LayerGraphs write "
                                "seconds where all else is milliseconds") == "s"
                        ? 1e3
                        : 1.0),
        text_(file.rest()),
        file_(path_, text_) {}

  Trace read();

 private:
  struct FileEdge {
    std::int64_t from = 0, to = 0;
    std::size_t from_offset = 0, to_offset = 0;
    Bytes size{};
    Duration cost{};
  };
  struct Output {
    bool used = false, sizes_differ = false, costs_differ = false;
    Bytes size{};
    Duration cost{};
  };

  void read_node(Json value);
  void read_edge(Json value);
  std::string unique_name(std::string_view name, std::int64_t id);
  void add_edges();
  void link_backward();
  void write_notes(Trace& trace) const;

  std::string path_;
  bool measured_;
  double cost_scale_;
  std::string text_;
  JsonFile file_;  // behind the options: the reference asks for them without a file
  OpGraphBuilder builder_;
  std::unordered_map<std::int64_t, OpId> op_of_;  // by the file's id
  std::vector<OpId> backward_;
  std::vector<FileEdge> edges_;
  IdVector<OpId, Output> output_;
  std::size_t renamed_ = 0;
};

std::string DnnPartitioningReader::unique_name(std::string_view name, std::int64_t id) {
  std::string unique = name.empty() ? fmt::format("n{}", id) : std::string(name);
  if (!builder_.find(unique)) return unique;
  ++renamed_;
  do unique += fmt::format("#{}", id);
  while (builder_.find(unique));
  return unique;
}

void DnnPartitioningReader::read_node(Json value) {
  std::string_view name;
  std::optional<std::int64_t> id, color;
  Duration on_accelerator{}, on_cpu{};
  Bytes size{};
  bool supported = true, backward = false;
  value.object(node_keys, [&](std::string_view key, Json v) {
    if (key == "id")
      id = v.whole();
    else if (key == "name")
      name = v.string();
    else if (key == "cpuLatency")
      on_cpu = milliseconds(v);
    else if (key == "fpgaLatency")
      on_accelerator = milliseconds(v);
    else if (key == "supportedOnFpga")
      supported = v.boolean();
    else if (key == "isBackwardNode")
      backward = v.boolean();
    else if (key == "colorClass")
      color = v.whole();
    else if (key == "layerId")
      v.whole();
    else
      size = rounded_up(v);
  });
  if (!id) return;  // noted already
  if (op_of_.contains(*id)) value.mistake(fmt::format("two nodes have the id {}", *id));
  const OpId op = builder_.add_op({.name = unique_name(name, *id),
                                   .persistent = size,
                                   .phase = backward ? Phase::backward : Phase::forward});
  builder_.set_compute(op, accelerator, supported ? std::optional(on_accelerator) : std::nullopt);
  builder_.set_compute(op, cpu, on_cpu);
  if (color) builder_.colocate(op, fmt::format("c{}", *color));
  if (backward) backward_.push_back(op);
  op_of_.emplace(*id, op);
}

void DnnPartitioningReader::read_edge(Json value) {
  FileEdge edge;
  value.object(edge_keys, [&](std::string_view key, Json v) {
    if (key == "sourceId") {
      edge.from = v.whole();
      edge.from_offset = v.offset();
    } else if (key == "destId") {
      edge.to = v.whole();
      edge.to_offset = v.offset();
    } else if (key == "cost") {
      edge.cost = milliseconds(v, cost_scale_);
    } else {
      edge.size = rounded_up(v);
    }
  });
  if (edge.from_offset != 0 && edge.to_offset != 0) edges_.push_back(edge);
}

void DnnPartitioningReader::add_edges() {
  const auto find = [&](std::int64_t id, std::size_t offset, std::string_view key) {
    const auto it = op_of_.find(id);
    if (it != op_of_.end()) return std::optional(it->second);
    file_.mistake(offset, fmt::format("{}: no node has the id {}", key, id));
    return std::optional<OpId>();
  };
  std::vector<std::pair<OpId, OpId>> pairs;
  output_ = IdVector<OpId, Output>(builder_.num_ops());
  for (const FileEdge& edge : edges_) {
    const auto from = find(edge.from, edge.from_offset, "sourceId");
    const auto to = find(edge.to, edge.to_offset, "destId");
    if (!from || !to) continue;
    pairs.emplace_back(*from, *to);
    Output& output = output_[*from];
    // A nanosecond: costs are decimal numbers.
    output.sizes_differ |= output.used && output.size != edge.size;
    output.costs_differ |= output.used && output.cost != edge.cost;
    output.used = true;
    output.size = std::max(output.size, edge.size);
    output.cost = std::max(output.cost, edge.cost);
  }
  IdVector<OpId, TensorId> tensor(builder_.num_ops());
  for (const OpId v : output_.ids()) {
    if (!output_[v].used) continue;
    tensor[v] = builder_.add_tensor(v, output_[v].size);
    if (measured_) builder_.set_transfer(tensor[v], output_[v].cost);
  }
  for (const auto& [from, to] : pairs) builder_.add_edge(tensor[from], to);
}

/// The training LayerGraphs call the backward node of `node7` `node7grad`.
void DnnPartitioningReader::link_backward() {
  constexpr std::string_view suffix = "grad";
  for (const OpId v : backward_) {
    std::string_view name = builder_.name(v);
    if (!name.ends_with(suffix)) continue;
    name.remove_suffix(suffix.size());
    const auto forward = builder_.find(name);
    if (forward && !std::ranges::binary_search(backward_, *forward))
      builder_.set_forward(v, *forward);
  }
}

void DnnPartitioningReader::write_notes(Trace& trace) const {
  const auto sizes = std::ranges::count_if(output_, &Output::sizes_differ);
  const auto costs = std::ranges::count_if(output_, &Output::costs_differ);
  if (sizes > 0)
    trace.notes.push_back(fmt::format("{} ops state several sizes: the largest was taken", sizes));
  if (costs > 0)
    trace.notes.push_back(fmt::format("{} ops state several costs: the largest was taken", costs));
  if (renamed_ > 0)
    trace.notes.push_back(fmt::format("{} ops were renamed NAME#ID: the name was taken", renamed_));
  // The authors' costs are sizes over 2 GiB/s.
  double cost = 0.0, expected = 0.0;
  for (const Output& output : output_) {
    cost += static_cast<double>(output.cost.count());
    expected += static_cast<double>(output.size.count) / 0x1p31 * 1e9;
  }
  if (cost_scale_ == 1.0 && cost < 0.01 * expected)
    trace.notes.emplace_back(
        "its costs are far below size / 2 GiB/s: they look like seconds "
        "(cost_unit: s)");
}

Trace DnnPartitioningReader::read() {
  Trace trace{.source = "msr-fiddle/dnn-partitioning"};
  ClusterHint cluster;
  file_.root().object(file_keys, [&](std::string_view key, Json v) {
    if (key == "nodes")
      v.list([&](Json node) { read_node(node); });
    else if (key == "edges")
      v.list([&](Json edge) { read_edge(edge); });
    else if (key == "maxSizePerFPGA")
      cluster.memory = rounded_up(v);
    else if (key == "maxFPGAs")
      cluster.accelerators = static_cast<std::size_t>(v.whole());
    else
      cluster.cpus = static_cast<std::size_t>(v.whole());
  });
  add_edges();
  link_backward();
  file_.finish();
  write_notes(trace);
  IdVector<OpId, OpId> renumbered;
  trace.graph = build_graph(std::move(builder_), path_, &renumbered);
  cluster.transfer = IdVector<TensorId, Duration>(trace.graph.num_tensors());
  for (const OpId v : output_.ids())
    for (const TensorId t : trace.graph.outputs(renumbered[v]))
      cluster.transfer[t] = output_[v].cost;
  trace.cluster = std::move(cluster);
  return trace;
}

}  // namespace

bool looks_like_dnn_partitioning(std::string_view beginning) {
  return beginning.find("\"maxFPGAs\"") != std::string_view::npos ||
         beginning.find("\"fpgaLatency\"") != std::string_view::npos;
}

Trace read_dnn_partitioning(TextFile& file, Options& options) {
  return DnnPartitioningReader(file, options).read();
}

}  // namespace baechi
