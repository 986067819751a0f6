#include "traces/import/pytorch/execution_trace.h"

#include <unordered_set>

#include "traces/format/json.h"

namespace baechi::pytorch {
namespace {

// The format:
// - 1.0.1 is flat: each node has id, parent, rf_id, seq_id, scope, tid, fw_tid, op_schema, inputs,
//   input_shapes, input_types, and the same three keys for outputs.
// - From 1.0.2-chakra on, ctrl_deps is the parent, inputs and outputs are {values, shapes, types},
//   and the other properties are a list attrs of {name, type, value}.
// - A tensor is [tensor, storage, offset, elements, bytes of an element, device].
// - Other keys are ignored.
// Source: torch/csrc/profiler/standalone/execution_trace_observer.cpp, and files of five versions.

constexpr int deepest_value = 8;  // nesting of lists in arguments
constexpr std::size_t deepest_call = 500;

std::optional<std::int64_t> integer(Json value) {
  return parse_number<std::int64_t>(value.token());
}

struct TraceNode {
  std::size_t offset = 0;
  std::int64_t id = 0, parent = 0;
  bool has_id = false, has_parent = false;
  std::string schema, backend;
  Values inputs, outputs;
  Call call;
};

std::vector<std::int64_t> numbers(const Value& list) {
  std::vector<std::int64_t> all;
  all.reserve(list.items.size());
  for (const Value& item : list.items) all.push_back(item.number);
  return all;
}

bool is_frame_of_thread(const Call& call) {
  return call.name.starts_with("[pytorch|profiler|execution_");
}

/// A call whose parent is not in the file.
struct Orphan {
  Call* call;
  std::int64_t parent;  // id of its node
};

/// Sets the parent of each orphan to the innermost call of its thread that began before it and has
/// calls after it.
void adopt(const std::vector<Orphan>& orphans, ExecutionTrace& trace) {
  if (orphans.empty()) return;
  std::vector<std::size_t> last(trace.calls.size());  // [calls] index of the last call in it
  for (auto call = trace.calls.rbegin(); call != trace.calls.rend(); ++call) {
    last[call->index] = std::max(last[call->index], call->index);
    if (call->parent == nullptr) continue;
    std::size_t& around = last[call->parent->index];
    around = std::max(around, last[call->index]);
  }
  std::unordered_map<std::int64_t, Call*> before;  // by thread
  auto orphan = orphans.begin();
  for (Call& call : trace.calls) {
    if (orphan != orphans.end() && orphan->call == &call) {
      const auto found = before.find(call.thread);
      Call* parent = found == before.end() ? nullptr : found->second;
      while (parent != nullptr && last[parent->index] < call.index) parent = parent->parent;
      call.parent = parent;
      ++orphan;
    }
    before[call.thread] = &call;
  }
}

class ExecutionTraceReader {
 public:
  explicit ExecutionTraceReader(TextFile& file) : text_(file.rest()), file_(file.path(), text_) {}

  ExecutionTrace read() {
    ExecutionTrace trace;
    bool has_nodes = false, has_schema = false;
    Json root = file_.root();
    if (!root.is_object()) {
      root.is_not("an object");
      file_.throw_if_any();
    }
    root.entries([&](std::string_view key, Json v) {
      if (key == "schema") {
        has_schema = true;
        trace.schema = v.string();
        if (!trace.schema.starts_with("1."))
          v.mistake(fmt::format("'{}' is not a supported version (1.0.1 to 1.1.1)",
                                trace.schema.substr(0, 40)));
      } else if (key == "nodes") {
        has_nodes = true;
        v.list([&](Json node) { read_node(node); });
      }
    });
    if (!has_nodes) file_.mistake(0, "no 'nodes': not an execution trace");
    if (!has_schema) file_.mistake(0, "no 'schema', the version of the format (1.0.1 to 1.1.1)");
    file_.finish();
    link(nodes_, trace);
    file_.throw_if_any();
    return trace;
  }

 private:
  void read_node(Json value) {
    if (!value.is_object()) return value.is_not("an object");
    TraceNode node;
    node.offset = value.offset();
    bool has_inputs = false, has_number = false;
    value.entries([&](std::string_view key, Json v) {
      has_number |= key == "rf_id";
      if (read_property(node, key, v)) return;
      if (key == "name") {
        node.call.full_name = v.string();
      } else if (key == "id") {
        node.id = whole(v);
        node.has_id = true;
      } else if (key == "parent" || key == "ctrl_deps") {
        node.parent = whole(v);
        node.has_parent = true;
      } else if (key == "inputs") {
        has_inputs = true;
        if (v.is_object())
          read_tensors(v, node.inputs);
        else
          node.inputs.values = read_values(v);
      } else if (key == "outputs") {
        if (v.is_object())
          read_tensors(v, node.outputs);
        else
          node.outputs.values = read_values(v);
      } else if (key == "input_shapes") {
        node.inputs.shapes = read_values(v);
      } else if (key == "input_types") {
        node.inputs.types = read_types(v);
      } else if (key == "output_shapes") {
        node.outputs.shapes = read_values(v);
      } else if (key == "output_types") {
        node.outputs.types = read_types(v);
      } else if (key == "attrs") {
        v.list([&](Json attribute) {
          std::string name;
          attribute.entries([&](std::string_view k, Json a) {
            if (k == "name") name = a.string();
            if (k == "value") {
              has_number |= name == "rf_id";
              read_property(node, name, a);
            }
          });
        });
      }
    });
    const auto need = [&](bool there, std::string_view key) {
      if (!there) file_.mistake(node.offset, fmt::format("a node needs '{}'", key));
    };
    need(!node.call.full_name.empty(), "name");
    need(node.has_id, "id");
    need(node.has_parent, "parent' or 'ctrl_deps");
    need(has_inputs, "inputs");
    need(has_number, "rf_id");
    finish(node);
    check_sizes(node);
    nodes_.push_back(std::move(node));
  }

  /// Reads a property, which is a key of a node in 1.0.1 and an attribute in later versions. False
  /// if it is unknown.
  bool read_property(TraceNode& node, std::string_view key, Json value) {
    Call& call = node.call;
    if (key == "rf_id")
      call.id = whole(value);
    else if (key == "seq_id")
      call.sequence = whole(value);
    else if (key == "tid")
      call.thread = whole(value);
    else if (key == "fw_tid")
      call.forward_thread = whole(value);
    else if (key == "op_schema")
      node.schema = value.string();
    else if (key == "kernel_backend")
      node.backend = value.string();
    else if (key == "collective_name")
      call.collective = value.string();
    else
      return false;
    return true;
  }

  Value read_value(Json json, int depth) {
    Value value;
    const std::string_view token = json.token();
    if (token.starts_with('[')) {
      value.is_list = true;
      if (depth == deepest_value)
        json.mistake(fmt::format("lists nested more than {} deep", deepest_value));
      else
        json.list([&](Json item) { value.items.push_back(read_value(item, depth + 1)); });
    } else if (token.starts_with('"')) {
      value.text = json.string();
    } else if (const auto n = integer(json)) {
      value.number = *n;
      value.is_number = true;
    }
    return value;
  }

  std::vector<Value> read_values(Json json) {
    std::vector<Value> values;
    json.list([&](Json item) { values.push_back(read_value(item, 0)); });
    return values;
  }

  static std::vector<std::string> read_types(Json json) {
    std::vector<std::string> types;
    json.list([&](Json item) { types.emplace_back(item.string()); });
    return types;
  }

  void read_tensors(Json json, Values& values) {
    json.entries([&](std::string_view key, Json v) {
      if (key == "values")
        values.values = read_values(v);
      else if (key == "shapes")
        values.shapes = read_values(v);
      else if (key == "types")
        values.types = read_types(v);
    });
  }

  std::int64_t whole(Json value) {
    const auto n = integer(value);
    if (!n) value.is_not("an integer");
    return n.value_or(0);
  }

  void check_sizes(const TraceNode& node) {
    for (const auto* arguments : {&node.call.inputs, &node.call.outputs})
      for (const Argument& argument : *arguments)
        for (const TensorView& t : argument.tensors) {
          constexpr std::int64_t most = std::int64_t{1} << 40;  // elements
          if (t.offset < 0 || t.elements < 0 || t.element_bytes < 0)
            file_.mistake(
                node.offset,
                fmt::format("a tensor of {} elements of {} bytes, at {}: a number is negative",
                            t.elements, t.element_bytes, t.offset));
          else if (t.offset > most || t.elements > most || t.element_bytes > 256)
            file_.mistake(
                node.offset,
                fmt::format("a tensor of {} elements of {} bytes, at {}, is larger than any memory",
                            t.elements, t.element_bytes, t.offset));
        }
  }

  static void finish(TraceNode& node) {
    Call& call = node.call;
    call.is_operator = !node.schema.empty();
    call.is_triton = node.backend == "triton";
    call.inputs = arguments_of(node.schema);
    fill(node.inputs, call.inputs);
    fill(node.outputs, call.outputs);
    constexpr std::string_view aten = "aten::";
    call.name = call.full_name.substr(call.full_name.starts_with(aten) ? aten.size() : 0);
    if (call.name == "as_strided" && node.inputs.values.size() >= 3) {
      call.sizes = numbers(node.inputs.values[1]);
      call.strides = numbers(node.inputs.values[2]);
    }
    // Older versions have the collective's name, "all_reduce", among the arguments.
    if (call.name == "record_param_comms" && call.collective.empty())
      for (std::size_t i = 0; i < std::min(node.inputs.values.size(), node.inputs.types.size());
           ++i)
        if (node.inputs.types[i] == "String" && call.collective.empty())
          call.collective = node.inputs.values[i].text;
    node.inputs = {};
    node.outputs = {};
  }

  void link(std::vector<TraceNode>& nodes, ExecutionTrace& trace) {
    std::ranges::stable_sort(nodes, {}, [](const TraceNode& n) { return n.call.id; });
    std::unordered_map<std::int64_t, Call*> by_id;
    std::unordered_set<std::int64_t> frames;
    std::vector<std::size_t> offset;  // [calls]
    std::vector<Orphan> orphans;
    for (const TraceNode& node : nodes)
      if (is_frame_of_thread(node.call)) frames.insert(node.id);
    for (TraceNode& node : nodes) {
      if (is_frame_of_thread(node.call)) continue;
      node.call.index = trace.calls.size();
      offset.push_back(node.offset);
      Call& call = trace.calls.emplace_back(std::move(node.call));
      if (const auto parent = by_id.find(node.parent); parent != by_id.end())
        call.parent = parent->second;
      else if (!frames.contains(node.parent))
        orphans.push_back({&call, node.parent});
      if (!by_id.emplace(node.id, &call).second)
        file_.mistake(node.offset, fmt::format("two nodes have the id {}", node.id));
    }
    if (100 * orphans.size() > trace.calls.size())
      for (const Orphan& orphan : orphans)
        file_.mistake(offset[orphan.call->index],
                      fmt::format("'{}': its parent, id {}, does not begin before it",
                                  orphan.call->name.substr(0, 60), orphan.parent));
    adopt(orphans, trace);
    trace.orphans = orphans.size();
    std::vector<std::size_t> depth;
    for (Call& call : trace.calls) {
      depth.push_back(call.parent == nullptr ? 0 : depth[call.parent->index] + 1);
      if (depth.back() > deepest_call)
        file_.mistake(offset[call.index],
                      fmt::format("calls nested more than {} deep", deepest_call));
      if (call.parent != nullptr) call.parent->children.push_back(&call);
    }
  }

  const std::string text_;
  JsonFile file_;
  std::vector<TraceNode> nodes_;
};

}  // namespace

bool Call::mutates() const {
  return std::ranges::any_of(inputs,
                             [](const Argument& a) { return a.mutated && !a.tensors.empty(); });
}

bool Call::has_outputs() const {
  return std::ranges::any_of(outputs, [](const Argument& a) { return !a.tensors.empty(); });
}

bool Call::is_given(const TensorView& t) const {
  for (const Argument& a : inputs)
    for (const TensorView& i : a.tensors)
      if (i.storage == t.storage) return true;
  return false;
}

bool Call::is_view() const {
  if (mutates() || !has_outputs()) return false;
  return std::ranges::all_of(outputs, [&](const Argument& a) {
    return std::ranges::all_of(a.tensors, [&](const TensorView& t) { return is_given(t); });
  });
}

ExecutionTrace read_execution_trace(TextFile& file) { return ExecutionTraceReader(file).read(); }

bool looks_like_execution_trace(std::string_view beginning) {
  return beginning.find("\"nodes\"") != std::string_view::npos &&
         beginning.find("\"schema\"") != std::string_view::npos &&
         beginning.find("rf_id") != std::string_view::npos;
}

}  // namespace baechi::pytorch
