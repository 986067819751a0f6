#include <cmath>

#include "traces/format/json.h"
#include "traces/import/piper_file.h"
#include "traces/importer.h"

namespace baechi {
namespace {

constexpr std::string_view piper_file_names[] = {
    "nodes", "edges", "maxDevices", "maxMemoryPerDevice", "bandwidth", "mbsInBatch"};
constexpr JsonKeys piper_file_keys{"the file", piper_file_names, 6};
constexpr std::string_view piper_node_names[] = {"id", "TMPCs", "name"};
constexpr JsonKeys piper_node_keys{"a node", piper_node_names, 2};
constexpr std::string_view piper_mode_names[] = {"id",           "timePerSample", "parameterSize",
                                                 "memoryUsageA", "memoryUsageB",  "syncTimeFw",
                                                 "syncTimeBw"};
constexpr JsonKeys piper_mode_keys{"a mode", piper_mode_names, 7};
constexpr std::string_view piper_edge_names[] = {"sourceId", "destId", "communicationCost"};
constexpr JsonKeys piper_edge_keys{"an edge", piper_edge_names, 3};

/// Bytes by the id of the node at the other end of the edge.
struct Traffic {
  std::map<std::int64_t, double> bytes;
  std::size_t offset = 0;  ///< in the file
};

struct ReadMode {
  PiperMode mode;
  Traffic in, out;
};
using ReadModes = std::map<std::int64_t, std::vector<ReadMode>>;  // by degree

class PiperReader {
 public:
  explicit PiperReader(JsonFile& file) : file_(file) {}

  PiperFile read() {
    file_.root().object(piper_file_keys, [&](std::string_view key, Json v) {
      if (key == "nodes")
        v.list([&](Json node) { read_node(node); });
      else if (key == "edges")
        v.list([&](Json edge) { edges_.push_back(read_edge(edge)); });
      else if (key == "maxDevices")
        read_.devices = whole(v, 10'000);
      else if (key == "mbsInBatch")
        read_.micro_batches = whole(v, 10'000'000);
      else
        (key == "bandwidth" ? read_.bandwidth : read_.memory) = positive(v);
    });
    if (read_.nodes.empty()) file_.mistake(std::size_t{0}, "there are no nodes");
    if (edges_.empty()) file_.mistake(std::size_t{0}, "there are no edges");
    add_edges();
    add_modes();
    return std::move(read_);
  }

 private:
  struct FileEdge {
    std::int64_t from = 0, to = 0;
    double bytes = 0.0;
    std::size_t offset = 0;
    bool whole = false;  // has all its values
  };

  std::int64_t whole(Json v, std::int64_t most) {
    const std::int64_t count = v.whole();
    if (count < 1 || count > most) v.is_not(fmt::format("a whole number from 1 to {}", most));
    return std::clamp(count, std::int64_t{1}, most);
  }
  double positive(Json v) {
    const double value = v.number();
    if (value < 1e-9) v.is_not("a number of at least 1e-9");
    return std::max(value, 1e-9);
  }

  Traffic read_traffic(Json v) {
    Traffic traffic{.bytes = {}, .offset = v.offset()};
    v.entries([&](std::string_view key, Json bytes) {
      const auto id = parse_number<std::int64_t>(key);
      if (!id || !traffic.bytes.emplace(*id, 0.0).second)
        return bytes.mistake(id ? "a duplicate node" : "not the id of a node");
      traffic.bytes[*id] = bytes.number();
    });
    return traffic;
  }

  ReadMode read_mode(Json v) {
    ReadMode read;
    v.object(piper_mode_keys, [&](std::string_view key, Json value) {
      if (key == "id")
        read.mode.id = value.string();
      else if (key == "syncTimeFw")
        read.in = read_traffic(value);
      else if (key == "syncTimeBw")
        read.out = read_traffic(value);
      else
        (key == "timePerSample"   ? read.mode.time
         : key == "parameterSize" ? read.mode.weights
         : key == "memoryUsageA"  ? read.mode.per_batch
                                  : read.mode.stays) = value.number();
    });
    return read;
  }

  void read_modes(Json v, ReadModes& of_node) {
    v.entries([&](std::string_view key, Json modes) {
      const auto degree = parse_number<std::int64_t>(key);
      const std::size_t offset = modes.offset();
      if (!degree || *degree < 1 || *degree > 10'000 || of_node.contains(*degree)) {
        file_.mistake(
            offset, fmt::format("'{}' is not a unique degree from 1 to 10000", key.substr(0, 40)));
        return;
      }
      auto& list = of_node[*degree];
      modes.list([&](Json mode) { list.push_back(read_mode(mode)); });
      if (list.size() > 2) file_.mistake(offset, "more than two modes");
      for (const ReadMode& m : list)
        if (m.mode.id.empty() || std::ranges::count(list, m.mode.id, [](const ReadMode& other) {
                                   return other.mode.id;
                                 }) > 1)
          file_.mistake(offset, fmt::format("mode '{}': ids are unique and not empty", m.mode.id));
      list.resize(std::min<std::size_t>(list.size(), 2));
      if (list.empty()) of_node.erase(*degree);
    });
  }

  void read_node(Json v) {
    const std::size_t offset = v.offset();
    PiperNode node{.offset = offset};
    ReadModes read;
    std::optional<std::int64_t> id;
    v.object(piper_node_keys, [&](std::string_view key, Json value) {
      if (key == "id")
        id = value.whole();
      else if (key == "name")
        node.name = value.string();
      else
        read_modes(value, read);
    });
    node.id = id.value_or(0);
    if (id && !node_of_.emplace(*id, read_.nodes.size()).second)
      file_.mistake(offset, fmt::format("two nodes have the id {}", *id));
    node.op = node.name.empty() ? fmt::format("n{}", node.id) : node.name;
    while (!ops_.insert(node.op).second) node.op += fmt::format("#{}", node.id);
    read_.nodes.push_back(std::move(node));
    modes_.push_back(std::move(read));
  }

  FileEdge read_edge(Json v) {
    FileEdge edge{.offset = v.offset()};
    int values = 0;
    v.object(piper_edge_keys, [&](std::string_view key, Json value) {
      ++values;
      if (key == "communicationCost")
        edge.bytes = value.number();
      else
        (key == "sourceId" ? edge.from : edge.to) = value.whole();
    });
    edge.whole = values == 3;
    return edge;
  }

  void add_edges() {
    std::set<std::pair<std::size_t, std::size_t>> pairs;
    for (const FileEdge& edge : edges_) {
      const auto from = node_of_.find(edge.from), to = node_of_.find(edge.to);
      if (!edge.whole) continue;
      if (from == node_of_.end() || to == node_of_.end()) {
        file_.mistake(edge.offset, fmt::format("no node has the id {}",
                                               from == node_of_.end() ? edge.from : edge.to));
        continue;
      }
      if (!pairs.emplace(from->second, to->second).second) {
        file_.mistake(edge.offset, "a duplicate edge");
        continue;
      }
      read_.nodes[from->second].out.push_back(read_.edges.size());
      read_.nodes[to->second].in.push_back(read_.edges.size());
      read_.edges.push_back({from->second, to->second, edge.bytes});
    }
  }

  /// The traffic of each of `edges`, found by the id of the node at end `other`. [edges]
  std::vector<double> bytes_of(const Traffic& traffic, const std::vector<std::size_t>& edges,
                               std::size_t PiperEdge::* other) {
    std::vector<double> bytes;
    for (const std::size_t e : edges) {
      const std::int64_t id = read_.nodes[read_.edges[e].*other].id;
      const auto found = traffic.bytes.find(id);
      if (found == traffic.bytes.end())
        file_.mistake(traffic.offset, fmt::format("the edge of node {} is missing", id));
      bytes.push_back(found == traffic.bytes.end() ? 0.0 : found->second);
    }
    if (traffic.bytes.size() > edges.size() && read_.edges.size() == edges_.size())
      file_.mistake(traffic.offset, "a node to which there is no edge");
    return bytes;
  }

  void add_modes() {
    for (std::size_t i = 0; i < modes_.size(); ++i) {
      PiperNode& node = read_.nodes[i];
      for (auto& [degree, modes] : modes_[i]) {
        for (ReadMode& read : modes) {
          read.mode.in = bytes_of(read.in, node.in, &PiperEdge::from);
          read.mode.out = bytes_of(read.out, node.out, &PiperEdge::to);
          node.modes[degree].push_back(std::move(read.mode));
        }
      }
    }
  }

  JsonFile& file_;
  PiperFile read_;
  std::vector<ReadModes> modes_;  // of each node
  std::vector<FileEdge> edges_;
  std::unordered_map<std::int64_t, std::size_t> node_of_;  // by the file's id
  std::set<std::string> ops_;
};

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

  Trace trace() {
    Trace trace{.source = "msr-fiddle/piper"};
    for (const PiperNode& node : file_.nodes) add_op(node);
    add_edges();
    ClusterHint cluster{.accelerators = static_cast<std::size_t>(file_.devices)};
    if (file_.memory < 0x1p62)
      cluster.memory = {static_cast<std::int64_t>(std::ceil(file_.memory))};
    else
      json_.mistake(std::size_t{0}, "maxMemoryPerDevice is not below 4 EiB");
    json_.finish();
    note_count(trace.notes, other_mode_, "{} ops have no mode '{}': their first mode is used",
               mode_);
    note_count(trace.notes, renamed_, "{} ops were renamed NAME#ID: the name was taken");
    note_count(trace.notes, several_sizes_,
               "{} ops have edges of different sizes: the largest is used");
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

 private:
  /// The node's mode for degree_ and mode_; the first mode if mode_ is missing, null if degree_ is.
  const PiperMode* mode_of(const PiperNode& node) {
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

  void add_op(const PiperNode& node) {
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

  void add_edges() {
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

  Bytes size(double bytes, const PiperNode& node) {
    if (std::ceil(bytes) < 0x1p62) return {static_cast<std::int64_t>(std::ceil(bytes))};
    json_.mistake(node.offset, fmt::format("node {}: a size is not below 4 EiB", node.id));
    return {};
  }

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

}  // namespace

PiperFile read_piper_file(JsonFile& json) { return PiperReader(json).read(); }

bool looks_like_piper(std::string_view beginning) {
  return beginning.find("\"TMPCs\"") != std::string_view::npos ||
         (beginning.find("\"maxMemoryPerDevice\"") != std::string_view::npos &&
          beginning.find("\"mbsInBatch\"") != std::string_view::npos);
}

Trace read_piper(TextFile& file, Options& options) { return PiperImport(file, options).trace(); }

}  // namespace baechi
