/// A TensorFlow 1.12 graph while it is written, op by op in the order TensorFlow's Python would:
/// names, colocation, variables. Where an op count comes from a file of tensorflow/python, it is
/// named; they were read in TensorFlow 1.5 and 1.8.
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "traces/generate/expand.h"

namespace baechi {

enum class Tf1Op : std::uint32_t {};

/// An output of an op, "op:port" in TensorFlow.
struct Tf1Tensor {
  Tf1Op op{};
  std::uint32_t port = 0;
  friend bool operator==(const Tf1Tensor&, const Tf1Tensor&) = default;
};

/// How an op enters the graph.
struct Tf1Spec {
  std::string_view kind;    ///< "Conv2D": a literal
  std::string_view name{};  ///< in the scope; the kind, if ""
  std::vector<Tf1Tensor> inputs{};
  std::vector<Bytes> outputs{};  ///< size of each
  std::vector<Tf1Op> controls{};
  OpWork work{};  ///< none, if it runs no kernel on the device
  Bytes temporary{};
  int over_input = -1;  ///< the input that its last output takes the place of, if it alone reads it
};

class Tf1Graph {
 public:
  /// An op, and its first output (which a NoOp has not).
  Tf1Tensor add(const Tf1Spec& spec);
  Tf1Tensor constant(std::string_view name, Bytes size = word) {
    return add({.kind = "Const", .name = name, .outputs = {size}});
  }

  struct Variable {
    Tf1Tensor ref;   ///< what updates write
    Tf1Tensor read;  ///< what all others read
    std::int64_t elements = 0;
    std::string name{};
  };
  /// With its initialiser, which does not run in a step: its ops write nothing. `name` is not
  /// scoped.
  Variable variable(std::string_view name, std::int64_t elements, Initializer initializer);

  /// `gradient` is not of a whole table but of the rows that `rows` names: IndexedSlices.
  void set_rows(Tf1Tensor gradient, Tf1Tensor rows) { rows_.emplace_back(gradient, rows); }
  std::optional<Tf1Tensor> rows(Tf1Tensor gradient) const;

  /// Whatever is restored when it dies.
  class Scope;
  /// Names begin with `name`/, which is made unique.
  [[nodiscard]] Scope scope(std::string_view name);
  /// Ops are of the groups of `op`, too; or only of these, if `alone`.
  [[nodiscard]] Scope colocate_with(Tf1Op op, bool alone = false);
  /// Ops are of no group but their own.
  [[nodiscard]] Scope apart();
  /// Ops are backward ops of `forward`, and of its groups if `together`.
  [[nodiscard]] Scope backward_of(Tf1Op forward, bool together);
  [[nodiscard]] Scope updates();

  struct Node {
    std::string name;
    std::string_view kind;
    std::vector<Tf1Tensor> inputs;
    std::vector<Bytes> outputs;
    std::vector<Tf1Op> controls;
    OpWork work{};
    Bytes temporary{}, persistent{};
    bool reference = false;  ///< its output is a variable's memory
    int over_input = -1;     ///< as Tf1Spec
    Phase phase = Phase::forward;
    Tf1Op forward{};              ///< of a backward op
    std::vector<Tf1Op> groups{};  ///< ops whose names are its labels; itself, if nothing else
  };
  const Node& node(Tf1Op op) const { return ops_[op]; }
  Bytes size(Tf1Tensor t) const { return ops_[t.op].outputs[t.port]; }
  auto ops() const { return ops_.ids(); }

  /// What `fetch` does not need, through inputs and controls, TensorFlow does not run: such ops do
  /// no work and write nothing. Without `fetch` all run.
  OpGraph build(std::optional<Tf1Op> fetch) &&;

 private:
  /// Returns which ops are left.
  IdVector<Tf1Op, bool> stop_all_but(std::optional<Tf1Op> fetch);
  /// Which outputs of each op take no memory of their own: those that a reader writes over or
  /// passes on as its own output, which does.
  IdVector<Tf1Op, std::vector<bool>> passed_on(const IdVector<Tf1Op, bool>& running) const;

  struct State {
    std::string prefix{};
    std::vector<Tf1Op> groups{};
    Phase phase = Phase::forward;
    Tf1Op forward{};
  };
  std::string unique(std::string_view name);
  Tf1Tensor initial_value(const std::string& path, std::int64_t n, Initializer initializer);

  IdVector<Tf1Op, Node> ops_;
  std::unordered_map<std::string, int> names_;  // how often each was asked for
  std::vector<std::pair<Tf1Tensor, Tf1Tensor>> rows_;
  State state_;
};

class Tf1Graph::Scope {
 public:
  Scope(Tf1Graph& graph, State inner)
      : graph_(graph), outer_(std::exchange(graph.state_, std::move(inner))) {}
  Scope(const Scope&) = delete;
  Scope& operator=(const Scope&) = delete;
  ~Scope() { graph_.state_ = std::move(outer_); }

 private:
  Tf1Graph& graph_;
  State outer_;
};

/// While the layers of a model are written.
struct Tf1Model {
  Tf1Graph& graph;
  const Model& model;
  IdVector<ValueId, Tf1Tensor> values;                                // written so far
  IdVector<VariableId, std::optional<Tf1Graph::Variable>> variables;  // made so far
  std::optional<Tf1Tensor> loss{};

  Tf1Tensor value(ValueId v) const { return values[v]; }
  /// Made when it is first asked for; what its readers read.
  Tf1Tensor variable(VariableId w);
};

/// Writes the forward ops of one kind of layer.
struct Tf1Layer {
  LayerKind kind;
  void (*write)(Tf1Model&, const Layer&);
};
std::span<const Tf1Layer> tf1_image_layers();
std::span<const Tf1Layer> tf1_sequence_layers();

/// x [..., n] times w [n, m], of `size`: what a dense layer is of more than a matrix.
Tf1Tensor tf1_tensordot(Tf1Graph& graph, Tf1Tensor x, Tf1Tensor w, Bytes size, OpWork work);
/// Logits of sequences [N, T, classes] as a matrix, their labels as a vector.
std::pair<Tf1Tensor, Tf1Tensor> tf1_flat_logits(Tf1Graph& graph, Tf1Tensor logits,
                                                Tf1Tensor labels);

/// What an op of `kind` sends back to its inputs: `sent` [inputs], empty where nothing, given what
/// arrives at its outputs: `arriving` [outputs], zeros where nothing did.
using Tf1Sent = std::vector<std::optional<Tf1Tensor>>;
struct Tf1Gradient {
  std::string_view kind;
  void (*send)(Tf1Graph&, Tf1Op, std::span<const Tf1Tensor> arriving, Tf1Sent& sent);
};
std::span<const Tf1Gradient> tf1_image_gradients();
std::span<const Tf1Gradient> tf1_sequence_gradients();

/// The gradient of the scalar `y` by each variable; nothing where y does not depend on it.
/// Source: ops/gradients_impl.py.
Tf1Sent tf1_gradients(Tf1Graph& graph, Tf1Tensor y, std::span<const Tf1Graph::Variable> variables,
                      bool colocate);

/// Updates the rows of `w` that `gradient` has. Returns the op that waits for all of it. `hyper`
/// and `slots` in the order of the update op's inputs; `powers` of Adam's betas.
/// Source: training/optimizer.py, training/adam.py, training/gradient_descent.py.
Tf1Op tf1_sparse_update(Tf1Graph& graph, Optimizer optimizer, std::span<const Tf1Tensor> hyper,
                        Tf1Tensor w, std::span<const Tf1Tensor> slots,
                        std::span<const Tf1Tensor> powers, Tf1Tensor gradient, Tf1Tensor rows);

/// Slots and update op of each variable with a gradient, and the rest of a train op.
/// Source: training/optimizer.py, training/slot_creator.py and the optimizer's own file.
void tf1_updates(Tf1Graph& graph, Optimizer optimizer,
                 std::span<const Tf1Graph::Variable> variables, const Tf1Sent& gradients);

}  // namespace baechi
