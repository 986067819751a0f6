/// A TensorFlow 1.12 graph while it is written, op by op in the order of TensorFlow's Python code,
/// with names, colocation and variables. Functions name the files of tensorflow/python that they
/// follow; these were read in TensorFlow 1.5 and 1.8.
#pragma once

#include "traces/generate/expand.h"

namespace baechi::generate::tf1 {

enum class NodeId : std::uint32_t {};

/// Sizes of shapes, 4 bytes a dimension.
inline constexpr Bytes shape_of_matrix{8}, shape_of_steps{12}, shape_of_image{16};

/// An output of an op: "op:port" in TensorFlow.
struct Output {
  NodeId op{};
  std::uint32_t port = 0;
  friend bool operator==(const Output&, const Output&) = default;
};

/// An op to be added to the graph.
struct NodeSpec {
  std::string_view kind;    ///< "Conv2D": a literal
  std::string_view name{};  ///< within the scope; "": the kind
  std::vector<Output> inputs{};
  std::vector<Bytes> outputs{};  ///< their sizes
  std::vector<NodeId> controls{};
  OpWork work{};  ///< zero if it runs no kernel on the device
  Bytes temporary{};
  int over_input = -1;  ///< the input that its last output overwrites if no other op reads it
};

class Graph {
 public:
  /// Adds an op. Returns its first output, which a NoOp does not have.
  Output add(const NodeSpec& spec);
  Output constant(std::string_view name, Bytes size = word) {
    return add({.kind = "Const", .name = name, .outputs = {size}});
  }

  struct Variable {
    Output ref;   ///< updates write it
    Output read;  ///< all other ops read it
    std::int64_t elements = 0;
    std::string name{};
  };
  /// Adds a variable with its initialiser, whose ops do not run in a step and write nothing. `name`
  /// is the full name, without the scope.
  Variable variable(std::string_view name, std::int64_t elements, Initializer initializer);

  /// States that `gradient` belongs to the rows `rows` of a table, not to all of it: IndexedSlices.
  void set_rows(Output gradient, Output rows) { rows_.emplace_back(gradient, rows); }
  std::optional<Output> rows(Output gradient) const;

  /// Changes the state below while it lives, then restores it.
  class Scope;
  /// Names begin with `name`/; `name` is made unique.
  [[nodiscard]] Scope scope(std::string_view name);
  /// New ops are also in the groups of `op`; if `alone`, only in these.
  [[nodiscard]] Scope colocate_with(NodeId op, bool alone = false);
  /// New ops are in no group but their own.
  [[nodiscard]] Scope apart();
  /// New ops are backward ops of `forward`, and in its groups if `together`.
  [[nodiscard]] Scope backward_of(NodeId forward, bool together);
  /// New ops are update ops.
  [[nodiscard]] Scope updates();

  struct Node {
    std::string name;
    std::string_view kind;
    std::vector<Output> inputs;
    std::vector<Bytes> outputs;
    std::vector<NodeId> controls;
    OpWork work{};
    Bytes temporary{}, persistent{};
    bool reference = false;  ///< its output is a variable's memory
    int over_input = -1;     ///< as in NodeSpec
    Phase phase = Phase::forward;
    NodeId forward{};              ///< the op that a backward op differentiates
    std::vector<NodeId> groups{};  ///< ops whose names are its colocation labels; by default itself
  };
  const Node& node(NodeId op) const { return ops_[op]; }
  Bytes size(Output t) const { return ops_[t.op].outputs[t.port]; }
  Output input(NodeId op, std::size_t i) const { return ops_[op].inputs[i]; }
  Bytes input_size(NodeId op, std::size_t i) const { return size(input(op, i)); }
  auto ops() const { return ops_.ids(); }

  /// The graph of a step that fetches `fetch`. TensorFlow does not run ops that `fetch` does not
  /// need through inputs or controls: they do no work and write nothing. Without `fetch` all ops
  /// run.
  OpGraph build(std::optional<NodeId> fetch) &&;

 private:
  /// Returns which ops run.
  IdVector<NodeId, bool> stop_all_but(std::optional<NodeId> fetch);
  /// For each op the outputs that take no memory of their own: a reader overwrites the output, or
  /// passes it on as its own output and counts its memory.
  IdVector<NodeId, std::vector<bool>> passed_on(const IdVector<NodeId, bool>& running) const;

  struct State {
    std::string prefix{};
    std::vector<NodeId> groups{};
    Phase phase = Phase::forward;
    NodeId forward{};
  };
  std::string unique(std::string_view name);
  /// The scope of `op`. A backward op has its forward op's, an update op the scope of the variable
  /// whose device it shares.
  std::string module_of(NodeId op) const;
  Output initial_value(const std::string& path, std::int64_t n, Initializer initializer);

  IdVector<NodeId, Node> ops_;
  std::unordered_map<std::string, int> names_;  // how often each was asked for
  std::vector<std::pair<Output, Output>> rows_;
  State state_;
};

class Graph::Scope {
 public:
  Scope(Graph& graph, State inner)
      : graph_(graph), outer_(std::exchange(graph.state_, std::move(inner))) {}
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() { graph_.state_ = std::move(outer_); }

 private:
  Graph& graph_;
  State outer_;
};

/// The state while the layers of a model are written.
struct Writer {
  Graph& graph;
  const Model& model;
  IdVector<ValueId, Output> values;                                // written so far
  IdVector<VariableId, std::optional<Graph::Variable>> variables;  // made so far
  std::optional<Output> loss{};

  Output value(ValueId v) const { return values[v]; }
  /// The output that readers of the variable read. The first call makes the variable.
  Output variable(VariableId w);
};

/// How the forward ops of one kind of layer are written.
struct LayerWriter {
  LayerKind kind;
  void (*write)(Writer&, const Layer&);
};
std::span<const LayerWriter> image_layers();
std::span<const LayerWriter> sequence_layers();

/// x [..., n] times w [n, m], with a result of `size`: a dense layer on more than two axes.
Output tensordot(Graph& graph, Output x, Output w, Bytes size, OpWork work);
/// Logits [N, T, classes] reshaped to a matrix, and their labels to a vector.
std::pair<Output, Output> flat_logits(Graph& graph, Output logits, Output labels);

/// Writes the backward ops of an op of `kind`. `arriving` [outputs]: the gradients of its outputs,
/// zeros where there are none. `sent` [inputs]: the gradients of its inputs, empty where none.
using Sent = std::vector<std::optional<Output>>;
struct GradientRule {
  std::string_view kind;
  void (*send)(Graph&, NodeId, std::span<const Output> arriving, Sent& sent);
};
std::span<const GradientRule> image_gradients();
std::span<const GradientRule> sequence_gradients();

/// The gradient of the scalar `y` for each variable; empty if y does not depend on it.
/// Source: ops/gradients_impl.py.
Sent gradients_of(Graph& graph, Output y, std::span<const Graph::Variable> variables,
                  bool colocate);

/// Updates the rows of `w` that `gradient` belongs to. Returns an op that waits for the whole
/// update. `hyper` and `slots` are in the order of the update op's inputs; `powers` are those of
/// Adam's betas. Source: training/optimizer.py, training/adam.py, training/gradient_descent.py.
NodeId add_sparse_update(Graph& graph, Optimizer optimizer, std::span<const Output> hyper, Output w,
                         std::span<const Output> slots, std::span<const Output> powers,
                         Output gradient, Output rows);

/// Adds the slots and the update op of each variable with a gradient, and the rest of a train op.
/// Source: training/optimizer.py, training/slot_creator.py and the optimizer's own file.
void add_updates(Graph& graph, Optimizer optimizer, std::span<const Graph::Variable> variables,
                 const Sent& gradients);

}  // namespace baechi::generate::tf1
