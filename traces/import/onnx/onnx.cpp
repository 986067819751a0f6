#include <fmt/ranges.h>

#include "traces/format/compressed_file.h"
#include "traces/import/onnx/model.h"
#include "traces/importer.h"

namespace baechi::onnx {
namespace {

// Decisions:
// - A node is an op, and so is an input that is not a weight, without time.
// - Weights (weights_of) are persistent bytes of their first reader; all readers of a weight are
//   colocated, because no edge carries it.
// - Shapes are those of the file, else inferred. A dynamic dimension of an input is option `batch`
//   if it is the first, else option `length`.
// - The graph is one forward pass: ONNX has neither a backward pass nor times.

constexpr std::int64_t most_bytes = std::int64_t{1} << 50;

struct Settings {
  std::int64_t batch = 0, length = 0;
};

/// The module in a node name: "layer1.conv1" of "/layer1/conv1/Conv".
std::string module_of(std::string_view name) {
  const std::size_t last = name.rfind('/');
  if (last == std::string_view::npos) return "";
  std::string module(name.substr(0, last));
  if (module.starts_with('/')) module.erase(0, 1);
  std::ranges::replace(module, '/', '.');
  return module;
}

class OnnxGraphBuilder {
 public:
  OnnxGraphBuilder(const Model& model, const Settings& settings, Untimed& untimed)
      : model_(model), settings_(settings), untimed_(untimed) {}

  OpGraph make(const std::string& path, Trace& trace) {
    find_weights();
    infer_all();
    add_inputs();
    for (std::size_t i = 0; i < model_.nodes.size(); ++i) add_node(model_.nodes[i], i);
    note(trace.notes);
    return build_graph(std::move(builder_), path);
  }

 private:
  void find_weights() {
    for (const auto& [name, info] : weights_of(model_)) {
      weights_.insert(name);
      if (info != nullptr) tensors_[name] = *info;
    }
    for (const Node& node : model_.nodes) {
      const std::set<std::string> read(node.inputs.begin(), node.inputs.end());
      for (const std::string& name : read)
        if (weights_.contains(name)) ++readers_[name];
    }
  }

  void infer_all() {
    for (const ValueInfo& input : model_.inputs)
      if (!tensors_.contains(input.name)) tensors_[input.name] = stated(input, true);
    std::map<std::string, const ValueInfo*> values;
    for (const auto* all : {&model_.values, &model_.outputs})
      for (const ValueInfo& value : *all) values[value.name] = &value;
    for (const Node& node : model_.nodes) {
      std::vector<TensorInfo> out = infer(node, known(node.inputs), model_.opset);
      for (std::size_t i = 0; i < node.outputs.size(); ++i) {
        if (node.outputs[i].empty()) continue;
        ++values_;
        bool whole = false;
        if (const auto value = values.find(node.outputs[i]); value != values.end()) {
          TensorInfo from_file = stated(*value->second, false);
          whole = from_file.elements().has_value();
          if (out[i].type == ElementType::unknown || whole) out[i].type = from_file.type;
          if (whole && out[i].shape != from_file.shape) {
            out[i].shape = from_file.shape;
            out[i].values.reset();
          }
        }
        if (whole || out[i].elements()) ++(whole ? stated_ : inferred_);
        tensors_[node.outputs[i]] = std::move(out[i]);
      }
    }
  }

  void add_inputs() {
    for (const ValueInfo& input : model_.inputs) {
      if (weights_.contains(input.name)) continue;
      ++inputs_;
      input_bytes_ += bytes_of(input.name);
      const std::string name = unique("input/" + input.name);
      const OpId op = builder_.add_op({.name = name, .kind = "Input"});
      produced_[input.name] = builder_.add_tensor(op, bytes_of(input.name));
    }
  }

  void add_node(const Node& node, std::size_t number) {
    if (constant_weight(node) != nullptr) return;  // counted in its reader
    const auto in = known(node.inputs), out = known(node.outputs);
    const std::string name =
        unique(node.name.empty() ? fmt::format("{}.{}", node.op_type, number) : node.name);
    Bytes persistent{}, weights{};
    for (const std::string& input : node.inputs) {
      if (!weights_.contains(input)) continue;
      weights += bytes_of(input);
      if (counted_weights_.insert(input).second) persistent += bytes_of(input);
    }
    weight_bytes_ += persistent;
    const std::string module = module_of(node.name);
    const OpId op = builder_.add_op(
        {.name = name, .kind = node.op_type, .persistent = persistent, .module = module});
    for (const auto& [key, attribute] : node.attributes)
      subgraphs_ += attribute.has_graph ? 1U : 0U;
    if (auto work = work_of(node, in, out)) {
      if (!moves(node)) work->weights = std::min(weights, work->traffic);
      builder_.add_kernel(op, *work);
    } else {
      untimed_.add(node.op_type, name, is_known(node) ? "unknown shape" : "no rule for its shapes");
    }
    if (multiplies_unknown(node) ||
        std::ranges::find(model_.functions, node.op_type) != model_.functions.end())
      ++uncounted_[node.op_type.substr(0, 60)];
    if (!is_known(node)) ++unknown_[node.op_type.substr(0, 60)];
    for (const std::string& input : node.inputs) {
      if (weights_.contains(input) && readers_[input] > 1) builder_.colocate(op, input);
      if (const auto tensor = produced_.find(input); tensor != produced_.end())
        builder_.add_edge(tensor->second, op);
    }
    for (const std::string& output : node.outputs) {
      if (output.empty()) continue;
      const TensorInfo* t = known(output);
      if (t == nullptr || !t->bytes()) ++shapeless_;
      produced_[output] = builder_.add_tensor(op, bytes_of(output));
    }
  }

  void note(std::vector<std::string>& notes) const {
    const std::size_t ops = model_.nodes.size();
    notes.push_back(fmt::format(
        "{}shapes of {} of {} values: {} stated, {} inferred; work by formula for {} of {} nodes",
        10 * shapeless_ > ops ? "warning: " : "", stated_ + inferred_, values_, stated_, inferred_,
        ops - untimed_.ops, ops));
    const auto note_ops = [&](std::string_view what,
                              const std::map<std::string, std::size_t>& ops) {
      std::string list;
      for (const auto& [op, count] : ops)
        list += fmt::format("{}{} x{}", list.empty() ? "" : ", ", op, count);
      if (!list.empty()) notes.push_back(fmt::format("{}{}", what, list.substr(0, 300)));
    };
    note_ops("no rule for the shapes of ", unknown_);
    note_ops(
        "warning: matmuls without a formula, or functions defined by the model, count as one flop "
        "per element: ",
        uncounted_);
    note_count(
        notes, subgraphs_,
        "warning: {} subgraphs of nodes (If, Loop, Scan) are not read: each such node is one op");
    note_count(notes, open_,
               "{} dimensions of inputs are dynamic: {} where it is the first (option batch), "
               "else {} (option length)",
               settings_.batch, settings_.length);
    const auto external =
        std::ranges::count_if(model_.initializers, [](const Initializer& i) { return i.external; });
    notes.push_back(fmt::format("{} weights of {}{}; {} inputs of {}", counted_weights_.size(),
                                to_text(weight_bytes_),
                                external > 0 ? fmt::format(", {} in other files", external) : "",
                                inputs_, to_text(input_bytes_)));
    notes.emplace_back(
        "one forward pass; times are by a device's roofline and work by formula, memory is outputs "
        "and weights");
  }

  std::string unique(std::string name) {
    std::string tried = name;
    for (std::size_t n = 2; !names_.insert(tried).second; ++n)
      tried = fmt::format("{}#{}", name, n);
    return tried;
  }

  /// A value with its shape from the file. Dynamic dimensions of an input are set from the options.
  TensorInfo stated(const ValueInfo& value, bool input) {
    TensorInfo info{.type = value.type, .shape = value.shape};
    if (!info.shape) return info;
    for (std::size_t i = 0; i < info.shape->size(); ++i) {
      std::int64_t& dim = (*info.shape)[i];
      if (dim >= 0 && !(input && dim == 0)) continue;
      const std::string& symbol = value.symbols[i];
      if (input) {
        dim = i == 0 ? settings_.batch : settings_.length;
        ++open_;
        if (!symbol.empty()) dim = symbols_.emplace(symbol, dim).first->second;
      } else if (const auto found = symbols_.find(symbol);
                 !symbol.empty() && found != symbols_.end()) {
        dim = found->second;
      }
    }
    return info;
  }

  const TensorInfo* known(const std::string& name) const {
    const auto found = tensors_.find(name);
    return found == tensors_.end() ? nullptr : &found->second;
  }
  std::vector<const TensorInfo*> known(const std::vector<std::string>& names) const {
    std::vector<const TensorInfo*> all;
    for (const std::string& name : names) all.push_back(known(name));
    return all;
  }
  Bytes bytes_of(const std::string& name) const {
    const TensorInfo* t = known(name);
    const auto bytes = t == nullptr ? std::nullopt : t->bytes();
    return {std::min(bytes.value_or(0), most_bytes)};
  }

  const Model& model_;
  Settings settings_;
  Untimed& untimed_;
  Tensors tensors_;
  std::map<std::string, std::int64_t> symbols_;  // values of named dynamic dimensions
  std::set<std::string> weights_;
  std::map<std::string, std::size_t> readers_;     // number of readers per weight
  std::set<std::string> counted_weights_, names_;  // weights counted in an op; names of ops
  std::map<std::string, TensorId> produced_;
  std::map<std::string, std::size_t> unknown_;  // counts of operators without a shape rule
  std::map<std::string, std::size_t>
      uncounted_;  // counts of operators whose flops are underestimated
  std::size_t stated_ = 0, inferred_ = 0, open_ = 0, values_ = 0, shapeless_ = 0;
  std::size_t inputs_ = 0, subgraphs_ = 0;
  Bytes weight_bytes_{}, input_bytes_{};
  OpGraphBuilder builder_;
};

/// Throws InputError on a weight of 2^50 bytes or more: the file is damaged.
void check_sizes(const Model& model, const std::string& path) {
  for (const Initializer& weight : model.initializers)
    if (bits_of(weight.info.type) > 0 && weight.info.bytes().value_or(most_bytes) >= most_bytes)
      throw InputError(
          fmt::format("{}: weight '{}' has dimensions {}, which are 2^50 bytes or more", path,
                      weight.name, fmt::join(*weight.info.shape, " x ")));
}

/// Throws InputError if nodes are not in topological order, or write the same value.
void check_order(const Model& model, const std::string& path) {
  std::set<std::string> written;
  for (const auto& node : model.nodes)
    for (const std::string& output : node.outputs)
      if (!output.empty() && !written.insert(output).second)
        throw InputError(fmt::format("{}: byte {}: '{}' is written by two nodes", path,
                                     node.position + 1, output));
  std::set<std::string> known;
  for (const auto& node : model.nodes) {
    for (const std::string& input : node.inputs)
      if (written.contains(input) && !known.contains(input))
        throw InputError(fmt::format("{}: byte {}: node '{}' reads '{}', which a later node writes",
                                     path, node.position + 1,
                                     node.name.empty() ? node.op_type : node.name, input));
    known.insert(node.outputs.begin(), node.outputs.end());
  }
}

}  // namespace
}  // namespace baechi::onnx

namespace baechi {

bool looks_like_onnx(std::string_view beginning) {
  // A ModelProto begins with ir_version, field 1, and another field. TensorFlow's SavedModel begins
  // in the same way, with version 1.
  if (beginning.size() < 3 || beginning[0] != '\x08' || beginning[1] < 2 || beginning[1] > 31)
    return false;
  constexpr std::string_view next = "\x12\x1a\x22\x28\x32\x3a\x42";
  return next.find(beginning[2]) != std::string_view::npos;
}

Trace read_onnx(TextFile& file, Options& options) {
  constexpr std::int64_t most_length = 1 << 30;
  const onnx::Settings settings{
      .batch = options.get("batch", std::int64_t{1}, "value of a dynamic first dimension of inputs",
                           1, most_length),
      .length = options.get("length", std::int64_t{128},
                            "value of other dynamic dimensions of inputs", 1, most_length)};
  const Untimed untimed =
      no_untimed_ops(options, "a file with their shapes (onnx.shape_inference.infer_shapes)");
  const onnx::Model model = onnx::read_model(file);
  onnx::check_order(model, file.path());
  onnx::check_sizes(model, file.path());
  Trace trace{.name = model.name,
              .source = fmt::format("ONNX, opset {}{}", model.opset,
                                    model.producer.empty() ? "" : ", by " + model.producer)};
  trace.untimed = untimed;
  trace.graph = onnx::OnnxGraphBuilder(model, settings, trace.untimed).make(file.path(), trace);
  return trace;
}

}  // namespace baechi
