#include <filesystem>

#include "traces/format/compressed_file.h"
#include "traces/import/tensorflow/protos.h"
#include "traces/importer.h"

namespace baechi::tensorflow {
namespace {

// Decisions:
// - A node is an op. Its time is the sum of its kernels (stream:all), or the op's own time if it
//   has none, as in Baechi; with `times: whole`, it is all_end_rel - op_start_rel.
// - An output's bytes are allocated or requested bytes of RunMetadata, else from attr
//   _output_shapes. A node without a record did not run in that step.
// - Colocation groups are those of attr _class.

enum class TimeSource : std::uint8_t { kernels, whole };
constexpr auto names_of(TimeSource) { return enumerators<TimeSource::whole>(); }
enum class SizeSource : std::uint8_t { allocated, requested };
constexpr auto names_of(SizeSource) { return enumerators<SizeSource::requested>(); }

struct Settings {
  TimeSource times = TimeSource::kernels;
  SizeSource sizes = SizeSource::allocated;
};

/// The node and output that an input names: "name", "name:1", "^name".
struct Input {
  std::string_view node;
  std::int64_t slot = 0;
  bool control = false;
};

Input parse(std::string_view text) {
  if (text.starts_with('^')) return {.node = text.substr(1), .control = true};
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return {.node = text};
  const auto slot = parse_number<std::int64_t>(text.substr(colon + 1));
  if (!slot || *slot < 0) return {.node = text};
  return {.node = text.substr(0, colon), .slot = *slot};
}

/// Whether the node runs a function of the graph's library, whose nodes are not in the graph.
bool calls_function(const Node& node) {
  return node.op == "PartitionedCall" || node.op == "StatefulPartitionedCall";
}

class TensorflowGraphBuilder {
 public:
  TensorflowGraphBuilder(const std::vector<Node>& nodes, const Costs& costs,
                         const Settings& settings)
      : nodes_(nodes), costs_(costs), settings_(settings) {}

  OpGraph make(const std::string& path, Trace& trace) {
    add_ops();
    add_inputs(path);
    note(trace);
    trace.notes.push_back(
        fmt::format("{} of {} tensors that are read have a size", sized_, tensors_.size()));
    return build_graph(std::move(builder_), path);
  }

 private:
  void add_ops() {
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const Node& node = nodes_[i];
      const Cost* c = cost(node.name);
      recorded_ += c != nullptr ? 1U : 0U;
      const OpId op = builder_.add_op({.name = node.name,
                                       .kind = node.op,
                                       .compute = c == nullptr ? Duration{} : time(*c),
                                       .persistent = persistent(i),
                                       .temporary = c == nullptr ? Bytes{} : c->temporary});
      by_name_.emplace(node.name, i);
      for (const std::string& label : node.classes) builder_.colocate(op, label);
    }
    for (const Node& node : nodes_)  // the label is the name of a node, which is in the group, too
      for (const std::string& label : node.classes)
        if (const auto named = by_name_.find(label); named != by_name_.end())
          builder_.colocate(static_cast<OpId>(static_cast<std::uint32_t>(named->second)), label);
  }

  void add_inputs(const std::string& path) {
    std::string missing;
    std::size_t count = 0;
    for (std::size_t i = 0; i < nodes_.size(); ++i) {
      const auto op = static_cast<OpId>(static_cast<std::uint32_t>(i));
      for (const std::string& text : nodes_[i].inputs) {
        const Input input = parse(text);
        const auto from = by_name_.find(input.node);
        if (from == by_name_.end()) {
          if (++count <= 20)
            missing += fmt::format("{}{}: node '{}' reads '{}': no node has this name",
                                   missing.empty() ? "" : "\n", path, nodes_[i].name, text);
        } else if (input.control) {
          builder_.add_control(static_cast<OpId>(static_cast<std::uint32_t>(from->second)), op);
        } else {
          builder_.add_edge(tensor(from->second, input.slot), op);
        }
      }
    }
    if (!missing.empty()) throw InputError(missing);
  }

  void note(Trace& trace) const {
    if (costs_.empty()) {
      trace.notes.emplace_back(
          "no times: option costs takes a RunMetadata of the same graph (tf.RunOptions, "
          "FULL_TRACE)");
      return;
    }
    for (const Node& node : nodes_)
      if (calls_function(node) && cost(node.name) == nullptr)
        trace.untimed.add(node.op, node.name, "the function's ops are recorded under other names");
    std::size_t records = 0, matched = 0;
    Duration all{}, taken{};
    std::set<std::string_view> names;
    for (const Node& node : nodes_) names.insert(node.name);
    for (const auto& [name, cost] : costs_) {
      // Skips the executor's own nodes and copies between devices.
      const std::size_t last = name.rfind('/');
      const std::string_view leaf =
          std::string_view(name).substr(last == std::string::npos ? 0 : last + 1);
      if (leaf.starts_with("_") || (!cost.recorded && !names.contains(name))) continue;
      ++records;
      all += time(cost);
      if (!names.contains(name)) continue;
      ++matched;
      taken += time(cost);
    }
    trace.notes.push_back(fmt::format(
        "{}costs: {} of {} records are of nodes of the graph, {} of {}; {} of {} nodes ran",
        10 * matched < 9 * records ? "warning: " : "", matched, records, to_text(taken),
        to_text(all), recorded_, nodes_.size()));
  }

  Duration time(const Cost& cost) const {
    if (settings_.times == TimeSource::whole) return cost.all;
    return cost.kernels.value_or(cost.own);
  }

  std::int64_t bytes(std::size_t node, std::int64_t slot) {
    if (const Cost* c = cost(nodes_[node].name))
      if (const auto found = c->outputs.find(slot); found != c->outputs.end()) {
        // As in Baechi's importer, a variable's contents do not count as its output.
        const auto [allocated, requested] = found->second;
        return (settings_.sizes == SizeSource::allocated ? allocated : requested).count;
      }
    const auto& stated = nodes_[node].output_bytes;
    return slot < static_cast<std::int64_t>(stated.size()) ? stated[static_cast<std::size_t>(slot)]
                                                           : -1;
  }

  /// Persistent bytes: recorded, or of a Const (weights of a frozen graph) its stated size.
  Bytes persistent(std::size_t node) {
    const Cost* c = cost(nodes_[node].name);
    if (c != nullptr && c->persistent > Bytes{}) return c->persistent;
    return {nodes_[node].op == "Const" ? std::max<std::int64_t>(0, bytes(node, 0)) : 0};
  }

  TensorId tensor(std::size_t node, std::int64_t slot) {
    const auto found = tensors_.find({node, slot});
    if (found != tensors_.end()) return found->second;
    const std::int64_t size = bytes(node, slot);
    sized_ += size >= 0 ? 1U : 0U;
    // The output of a variable or constant is its persistent memory.
    const bool reference = persistent(node) > Bytes{};
    const TensorId made = builder_.add_tensor(static_cast<OpId>(static_cast<std::uint32_t>(node)),
                                              {std::max<std::int64_t>(0, size)}, reference);
    tensors_.emplace(std::pair(node, slot), made);
    return made;
  }

  const Cost* cost(const std::string& name) const {
    const auto found = costs_.find(name);
    return found == costs_.end() ? nullptr : &found->second;
  }

  const std::vector<Node>& nodes_;
  const Costs& costs_;
  Settings settings_;
  OpGraphBuilder builder_;
  std::unordered_map<std::string_view, std::size_t> by_name_;
  std::map<std::pair<std::size_t, std::int64_t>, TensorId> tensors_;
  std::size_t recorded_ = 0, sized_ = 0;
};

/// The note on functions, which hide most ops of a TensorFlow 2 graph.
std::string note_on_functions(const std::vector<Node>& nodes, std::size_t functions) {
  const auto calls = std::ranges::count_if(nodes, calls_function);
  return fmt::format(
      "{}{} functions are not read: each of the {} nodes that call one is one op; freeze the graph "
      "(convert_variables_to_constants_v2) to inline them",
      calls > 0 ? "warning: " : "", functions, calls);
}

}  // namespace
}  // namespace baechi::tensorflow

namespace baechi {

bool looks_like_tensorflow(std::string_view beginning) {
  return tensorflow::looks_like_graph(beginning);
}

Trace read_tensorflow(TextFile& file, Options& options) {
  const std::string path =
      options.path("costs", "times and sizes: a RunMetadata file of the same graph");
  const tensorflow::Settings settings{
      .times = read_enum(options, "times", tensorflow::TimeSource::kernels,
                         "an op's time. kernels: of its kernels, or its own if it has none, as in "
                         "Baechi; whole: from its start to the end of all its work, as in Placeto"),
      .sizes = read_enum(options, "sizes", tensorflow::SizeSource::allocated,
                         "bytes of an output: allocated (rounded up) or requested")};
  const Untimed untimed =
      no_untimed_ops(options, "a frozen graph (convert_variables_to_constants_v2)");
  const auto [nodes, functions] = tensorflow::read_graph(file);
  if (nodes.empty())
    throw InputError(fmt::format("{}: no node in it: not a graph of TensorFlow", file.path()));
  tensorflow::Costs costs;
  if (!path.empty()) {
    if (!std::filesystem::exists(path)) {
      options.mistake("costs", fmt::format("no file '{}'", path));
      options.finish();
    }
    TextFile metadata(path, Content::any);
    costs = tensorflow::read_costs(metadata);
    if (costs.empty())
      throw InputError(fmt::format("{}: no record of a node in it: not a RunMetadata", path));
  }
  Trace trace{.source = "TensorFlow GraphDef", .untimed = untimed};
  if (functions > 0) trace.notes.push_back(tensorflow::note_on_functions(nodes, functions));
  if (!path.empty()) trace.source += " and RunMetadata";
  trace.graph = tensorflow::TensorflowGraphBuilder(nodes, costs, settings).make(file.path(), trace);
  return trace;
}

}  // namespace baechi
