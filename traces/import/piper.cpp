#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "traces/format/json.h"
#include "traces/importer.h"

namespace baechi {
namespace {

// The format, as its authors' program reads it: maxDevices, maxMemoryPerDevice (bytes), bandwidth
// (bytes/s of each device), mbsInBatch; nodes {id, name, TMPCs}, where TMPCs holds, per degree of
// tensor parallelism, at most two modes {id, timePerSample, parameterSize, memoryUsageA,
// memoryUsageB, syncTimeFw, syncTimeBw}; edges {sourceId, destId, communicationCost (bytes)}.
// Source: Tarnawski, Narayanan, Phanishayee (NeurIPS 2021) and its repository msr-fiddle/piper.
//
// Decisions:
// - One degree and one mode are taken of every node: options `degree` and `mode`.
// - A node is one op, forward and backward: its time is timePerSample.
// - memoryUsageB stays on the device, memoryUsageA once per micro-batch in flight, from its forward
//   to its backward pass. One step has one: the sum of both becomes persistent bytes.
// - A node has one output, the largest of its edges' sizes. The backward pass sends as much again,
//   which the graph does not say.

constexpr std::string_view file_names[] = {
    "nodes", "edges", "maxDevices", "maxMemoryPerDevice", "bandwidth", "mbsInBatch"};
constexpr JsonKeys file_keys{"the file", file_names, 2};
constexpr std::string_view node_names[] = {"id", "TMPCs", "name"};
constexpr JsonKeys node_keys{"a node", node_names, 2};
constexpr std::string_view mode_names[] = {"id",           "timePerSample", "parameterSize",
                                           "memoryUsageA", "memoryUsageB",  "syncTimeFw",
                                           "syncTimeBw"};
constexpr JsonKeys mode_keys{"a mode", mode_names, 5};
constexpr std::string_view edge_names[] = {"sourceId", "destId", "communicationCost"};
constexpr JsonKeys edge_keys{"an edge", edge_names, 3};

Bytes rounded_up(Json value) {
  const double bytes = std::ceil(value.number());
  if (bytes < 0x1p62) return {static_cast<std::int64_t>(bytes)};
  value.is_not("a size below 4 EiB");
  return {};
}

class PiperReader {
 public:
  PiperReader(TextFile& file, Options& options)
      : path_(file.path()),
        degree_(options.get("degree", std::int64_t{1}, "of tensor parallelism, of every op", 1)),
        mode_(options.get("mode", {"vanilla", "activation recomp"},
                          "of every op; activation recomp keeps less for the backward pass, and "
                          "computes it again")),
        second_(options.get("time_unit", {"s", "ms"},
                            "of the file's times; the released gnmt and resnet are in "
                            "milliseconds, bert32a100 in seconds") == "s"
                    ? 1e6
                    : 1e3),
        text_(file.rest()),
        file_(path_, text_) {}

  Trace read();

 private:
  struct FileEdge {
    std::int64_t from = 0, to = 0;
    std::size_t from_offset = 0, to_offset = 0;
    Bytes size{};
  };
  struct Mode {
    Duration time{};
    Bytes per_batch{}, stays{};
  };

  void read_node(Json value);
  std::optional<Mode> read_modes(Json value);
  Mode read_mode(Json value, std::string& name);
  void read_edge(Json value);
  void add_edges();

  std::string path_;
  std::int64_t degree_;
  std::string mode_;
  double second_;  // microseconds per unit of time
  std::string text_;
  JsonFile file_;
  OpGraphBuilder builder_;
  std::unordered_map<std::int64_t, OpId> op_of_;  // by the file's id
  std::vector<FileEdge> edges_;
  std::size_t renamed_ = 0, other_mode_ = 0, several_sizes_ = 0;
};

PiperReader::Mode PiperReader::read_mode(Json value, std::string& name) {
  Mode mode;
  value.object(mode_keys, [&](std::string_view key, Json v) {
    if (key == "id") {
      name = v.string();
    } else if (key == "timePerSample") {
      const auto time = from_us(v.number() * second_);
      if (!time) v.is_not("a time below 146 years");
      mode.time = time.value_or(Duration{});
    } else if (key == "memoryUsageA") {
      mode.per_batch = rounded_up(v);
    } else if (key == "memoryUsageB") {
      mode.stays = rounded_up(v);
    } else if (key == "parameterSize") {
      rounded_up(v);
    }
  });
  return mode;
}

/// The wanted mode of the wanted degree; the first mode if the degree lacks the wanted one; nothing
/// if the node lacks the degree.
std::optional<PiperReader::Mode> PiperReader::read_modes(Json value) {
  std::optional<Mode> found;
  value.entries([&](std::string_view key, Json modes) {
    const bool wanted = key == std::to_string(degree_);
    bool exact = false;
    modes.list([&](Json v) {
      std::string name;
      const Mode mode = read_mode(v, name);
      if (!wanted) return;
      if (name == mode_ && !exact) {
        found = mode;
        exact = true;
      } else if (!found) {
        found = mode;
      }
    });
    if (wanted && found && !exact) ++other_mode_;
  });
  return found;
}

void PiperReader::read_node(Json value) {
  const std::size_t offset = value.offset();
  std::string name;
  std::optional<std::int64_t> id;
  std::optional<Mode> mode;
  bool has_modes = false;
  value.object(node_keys, [&](std::string_view key, Json v) {
    if (key == "id") {
      id = v.whole();
    } else if (key == "name") {
      name = v.string();
    } else {
      has_modes = true;
      mode = read_modes(v);
    }
  });
  if (!id || !has_modes) return;  // reported before
  if (!mode) file_.mistake(offset, fmt::format("node {} has no mode of degree {}", *id, degree_));
  if (op_of_.contains(*id)) file_.mistake(offset, fmt::format("two nodes have the id {}", *id));
  std::string unique = name.empty() ? fmt::format("n{}", *id) : name;
  if (builder_.find(unique)) ++renamed_;
  while (builder_.find(unique)) unique += fmt::format("#{}", *id);
  const Mode taken = mode.value_or(Mode{});
  op_of_.emplace(*id, builder_.add_op({.name = unique,
                                       .kind = name,
                                       .compute = taken.time,
                                       .persistent = taken.stays + taken.per_batch}));
}

void PiperReader::read_edge(Json value) {
  FileEdge edge;
  value.object(edge_keys, [&](std::string_view key, Json v) {
    if (key == "sourceId") {
      edge.from = v.whole();
      edge.from_offset = v.offset();
    } else if (key == "destId") {
      edge.to = v.whole();
      edge.to_offset = v.offset();
    } else {
      edge.size = rounded_up(v);
    }
  });
  if (edge.from_offset != 0 && edge.to_offset != 0) edges_.push_back(edge);
}

void PiperReader::add_edges() {
  const auto find = [&](std::int64_t id, std::size_t offset, std::string_view key) {
    const auto it = op_of_.find(id);
    if (it != op_of_.end()) return std::optional(it->second);
    file_.mistake(offset, fmt::format("{}: no node has the id {}", key, id));
    return std::optional<OpId>();
  };
  struct Output {
    std::optional<Bytes> size;
    bool differs = false;
    TensorId tensor{};
  };
  IdVector<OpId, Output> output(builder_.num_ops());
  std::vector<std::pair<OpId, OpId>> pairs;
  for (const FileEdge& edge : edges_) {
    const auto from = find(edge.from, edge.from_offset, "sourceId");
    const auto to = find(edge.to, edge.to_offset, "destId");
    if (!from || !to) continue;
    pairs.emplace_back(*from, *to);
    Output& o = output[*from];
    o.differs |= o.size && *o.size != edge.size;
    o.size = std::max(o.size.value_or(Bytes{}), edge.size);
  }
  for (const OpId v : output.ids()) {
    if (!output[v].size) continue;
    output[v].tensor = builder_.add_tensor(v, *output[v].size);
    several_sizes_ += output[v].differs ? 1U : 0U;
  }
  for (const auto& [from, to] : pairs) builder_.add_edge(output[from].tensor, to);
}

Trace PiperReader::read() {
  Trace trace{.source = "msr-fiddle/piper"};
  ClusterHint cluster;
  double bandwidth = 0.0;
  file_.root().object(file_keys, [&](std::string_view key, Json v) {
    if (key == "nodes")
      v.list([&](Json node) { read_node(node); });
    else if (key == "edges")
      v.list([&](Json edge) { read_edge(edge); });
    else if (key == "maxMemoryPerDevice")
      cluster.memory = rounded_up(v);
    else if (key == "maxDevices")
      cluster.accelerators = static_cast<std::size_t>(v.whole());
    else if (key == "bandwidth")
      bandwidth = v.number();
    else
      v.whole();
  });
  add_edges();
  file_.finish();
  if (other_mode_ > 0)
    trace.notes.push_back(
        fmt::format("{} ops have no mode '{}': their first was taken", other_mode_, mode_));
  if (renamed_ > 0)
    trace.notes.push_back(fmt::format("{} ops were renamed NAME#ID: the name was taken", renamed_));
  if (several_sizes_ > 0)
    trace.notes.push_back(
        fmt::format("{} ops state several sizes: the largest was taken", several_sizes_));
  trace.notes.emplace_back(
      "each op is forward and backward at once; the gradients that go back are not in the graph");
  trace.graph = build_graph(std::move(builder_), path_);
  if (cluster.accelerators == 0 || cluster.memory == Bytes{} || !(bandwidth > 0.0)) return trace;
  for (const TensorId t : trace.graph.tensors())
    cluster.transfer.push_back(
        from_us(static_cast<double>(trace.graph.tensor(t).size.count) / bandwidth * 1e6)
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
  return PiperReader(file, options).read();
}

}  // namespace baechi
