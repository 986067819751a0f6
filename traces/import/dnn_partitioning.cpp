#include <cmath>

#include "traces/format/json.h"
#include "traces/importer.h"

namespace baechi {
namespace {

// The format, as its authors' programs read it: nodes {name, id, supportedOnFpga, cpuLatency,
// fpgaLatency (ms), isBackwardNode, colorClass, layerId, size (bytes)} and edges {sourceId, destId,
// cost (ms), size (bytes)}. "FPGA" is any accelerator. Source: Tarnawski et al., NeurIPS 2020, and
// its repository msr-fiddle/dnn-partitioning.
//
// Decisions:
// - A node's size becomes persistent bytes: the authors count weights and activations in it.
//   Outputs are added while they are live.
// - A node has one output, of the largest size among its edges (edges of one node have different
//   sizes in the released training LayerGraphs).
// The released training LayerGraphs contain the backward pass as a copy of the forward pass, in the
// same direction and without an edge between the passes. The authors' programs only add up loads,
// so this suffices for them, but it is not a training step. `backward: mirrored` makes one:
// - It reverses the edges of the copy: the backward node of a reader sends a gradient, as large as
//   the tensor that was read, to the backward node of the writer.
// - Every backward node reads the output of its forward node.

constexpr std::string_view partitioning_file_names[] = {"nodes", "edges", "maxSizePerFPGA",
                                                        "maxFPGAs", "maxCPUs"};
constexpr JsonKeys partitioning_file_keys{"the file", partitioning_file_names, 2};
constexpr std::string_view partitioning_node_names[] = {
    "id",         "cpuLatency", "fpgaLatency", "name", "supportedOnFpga", "isBackwardNode",
    "colorClass", "layerId",    "size"};
constexpr JsonKeys partitioning_node_keys{"a node", partitioning_node_names, 3};
constexpr std::string_view partitioning_edge_names[] = {"sourceId", "destId", "cost", "size"};
constexpr JsonKeys partitioning_edge_keys{"an edge", partitioning_edge_names, 4};

constexpr const char* accelerator = "accelerator";
constexpr const char* cpu = "cpu";

/// The time in nanoseconds of a value in milliseconds, times `scale`.
Duration milliseconds(Json value, double scale = 1.0) {
  const auto time = from_us(value.number() * scale * 1e3);
  if (!time) value.is_not("a time below 146 years");
  return time.value_or(Duration{});
}

/// Bytes, rounded up if the file has a fraction.
Bytes rounded_up(Json value) {
  const double bytes = std::ceil(value.number());
  if (bytes < 0x1p62) return {static_cast<std::int64_t>(bytes)};
  value.is_not("a size below 4 EiB");
  return {};
}

/// Whether the name is node<i> or node<i>grad, as in the layer graphs.
bool is_numbered(std::string_view name) {
  if (!name.starts_with("node")) return false;
  name.remove_prefix(4);
  if (name.ends_with("grad")) name.remove_suffix(4);
  return parse_number<std::int64_t>(name).has_value();
}

class DnnPartitioningReader {
 public:
  DnnPartitioningReader(TextFile& file, Options& options)
      : path_(file.path()),
        measured_(options.get("transfers", {"link", "measured"},
                              "link: sizes over the link model; measured: the file's costs as "
                              "times (always used on the file's own cluster)") == "measured"),
        cost_scale_(options.get("cost_unit", {"ms", "s"},
                                "unit of the file's edge costs; the released throughput "
                                "LayerGraphs use seconds here and milliseconds elsewhere") == "s"
                        ? 1e3
                        : 1.0),
        mirrored_(options.get("backward", {"mirrored", "as_given"},
                              "edges of training files whose backward nodes are a copy of the "
                              "forward nodes. mirrored: gradients flow against the forward pass, "
                              "and a backward op reads its forward op's output; as_given: the "
                              "file's edges, as the paper's programs read them") == "mirrored"),
        by_id_(options.get("names", {"file", "ids"},
                           "names of ops. file: the file's; ids: node<ID>, as in splits") == "ids"),
        text_(file.rest()),
        file_(path_, text_) {}

  Trace read() {
    Trace trace{.source = "msr-fiddle/dnn-partitioning"};
    ClusterHint cluster;
    file_.root().object(partitioning_file_keys, [&](std::string_view key, Json v) {
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
    file_.finish();
    write_notes(trace);
    IdVector<OpId, OpId> renumbered;
    trace.graph = build_graph(std::move(builder_), path_, &renumbered);
    cluster.transfer = IdVector<TensorId, Duration>(trace.graph.num_tensors());
    for (const OpId v : output_.ids())
      for (std::size_t k = 0; k < output_[v].tensor_costs.size(); ++k)
        cluster.transfer[trace.graph.outputs(renumbered[v])[static_cast<std::ptrdiff_t>(k)]] =
            output_[v].tensor_costs[k];
    trace.cluster = std::move(cluster);
    return trace;
  }

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
    std::vector<Duration> tensor_costs{};  // of the tensors made from this output
  };

  void read_node(Json value) {
    std::string_view name;
    std::optional<std::int64_t> id, color;
    Duration on_accelerator{}, on_cpu{};
    Bytes size{};
    bool supported = true, backward = false;
    value.object(partitioning_node_keys, [&](std::string_view key, Json v) {
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
    if (!id) return;  // reported before
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

  void read_edge(Json value) {
    FileEdge edge;
    value.object(partitioning_edge_keys, [&](std::string_view key, Json v) {
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

  std::string unique_name(std::string_view name, std::int64_t id) {
    std::string unique = name.empty() ? fmt::format("n{}", id) : std::string(name);
    if (by_id_ && !is_numbered(name)) unique = fmt::format("node{}", id);
    if (!builder_.find(unique)) return unique;
    ++renamed_;
    do unique += fmt::format("#{}", id);
    while (builder_.find(unique));
    return unique;
  }

  void add_edges() {
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
      // Costs compare exactly: they are integer nanoseconds here.
      output.sizes_differ |= output.used && output.size != edge.size;
      output.costs_differ |= output.used && output.cost != edge.cost;
      output.used = true;
      output.size = std::max(output.size, edge.size);
      output.cost = std::max(output.cost, edge.cost);
    }
    find_forward();
    if (mirrored_ && is_copy_of_forward(pairs)) return add_mirrored(pairs);
    IdVector<OpId, TensorId> tensor(builder_.num_ops());
    for (const OpId v : output_.ids())
      if (output_[v].used) tensor[v] = add_tensor(v, output_[v]);
    for (const auto& [from, to] : pairs) builder_.add_edge(tensor[from], to);
  }

  bool is_backward(OpId v) const { return std::ranges::binary_search(backward_, v); }

  /// Whether each backward node has its own forward node, and no edge joins the two passes.
  bool is_copy_of_forward(const std::vector<std::pair<OpId, OpId>>& edges) const {
    return !backward_.empty() && std::ranges::find(forward_, no_op) == forward_.end() &&
           std::ranges::all_of(
               edges, [&](const auto& e) { return is_backward(e.first) == is_backward(e.second); });
  }

  /// Adds a tensor of `producer` with the size and the cost of `output`.
  TensorId add_tensor(OpId producer, const Output& output) {
    const TensorId t = builder_.add_tensor(producer, output.size);
    if (measured_) builder_.set_transfer(t, output.cost);
    output_[producer].tensor_costs.push_back(output.cost);
    return t;
  }

  void add_mirrored(const std::vector<std::pair<OpId, OpId>>& edges) {
    IdVector<OpId, std::optional<TensorId>> tensor(builder_.num_ops());
    for (const auto& [from, to] : edges) {
      if (is_backward(from)) {
        builder_.add_edge(add_tensor(to, output_[from]), from);
        ++reversed_;
      } else {
        if (!tensor[from]) tensor[from] = add_tensor(from, output_[from]);
        builder_.add_edge(*tensor[from], to);
      }
    }
    for (std::size_t i = 0; i < backward_.size(); ++i) {
      if (const auto read = tensor[forward_[i]])
        builder_.add_edge(*read, backward_[i]);
      else
        builder_.add_control(forward_[i], backward_[i]);
    }
  }

  /// Finds the forward node of each backward node by name: the training LayerGraphs call the
  /// backward node of `node7` `node7grad`.
  void find_forward() {
    constexpr std::string_view suffix = "grad";
    for (const OpId v : backward_) {
      OpId& found = forward_.emplace_back(no_op);
      std::string_view name = builder_.name(v);
      if (!name.ends_with(suffix)) continue;
      name.remove_suffix(suffix.size());
      const auto forward = builder_.find(name);
      if (!forward || is_backward(*forward)) continue;
      found = *forward;
      builder_.set_forward(v, found);
    }
  }

  void write_notes(Trace& trace) const {
    const auto sizes = std::ranges::count_if(output_, &Output::sizes_differ);
    const auto costs = std::ranges::count_if(output_, &Output::costs_differ);
    note_count(trace.notes, sizes, "{} ops have edges of different sizes: the largest is used");
    note_count(trace.notes, costs, "{} ops have edges of different costs: the largest is used");
    note_count(trace.notes, renamed_, "{} ops were renamed NAME#ID: the name was taken");
    note_count(
        trace.notes, reversed_,
        "backward: mirrored: {} edges between backward ops were reversed, and each of {} "
        "backward ops reads what its forward op writes (backward: as_given keeps the file's edges)",
        backward_.size());
    // The authors' costs are sizes divided by 2 GiB/s.
    double cost = 0.0, expected = 0.0;
    for (const Output& output : output_) {
      cost += static_cast<double>(output.cost.count());
      expected += static_cast<double>(output.size.count) / 0x1p31 * 1e9;
    }
    if (cost_scale_ == 1.0 && cost < 0.01 * expected)
      trace.notes.emplace_back(
          "its costs are far below size / 2 GiB/s: they look like seconds (cost_unit: s)");
  }

  std::string path_;
  bool measured_;
  double cost_scale_;
  bool mirrored_;
  bool by_id_;
  std::string text_;
  JsonFile file_;  // constructed after the options are declared: the reference reads them alone
  OpGraphBuilder builder_;
  std::unordered_map<std::int64_t, OpId> op_of_;  // by the file's id
  std::vector<OpId> backward_;                    // ascending
  std::vector<OpId> forward_;                     // [backward_] the op it differentiates, or no_op
  std::vector<FileEdge> edges_;
  IdVector<OpId, Output> output_;
  std::size_t renamed_ = 0;
  std::size_t reversed_ = 0;  // number of reversed edges
};

}  // namespace

bool looks_like_dnn_partitioning(std::string_view beginning) {
  return beginning.find("\"maxFPGAs\"") != std::string_view::npos ||
         beginning.find("\"fpgaLatency\"") != std::string_view::npos;
}

Trace read_dnn_partitioning(TextFile& file, Options& options) {
  return DnnPartitioningReader(file, options).read();
}

}  // namespace baechi
