/// From a model to the op graph of one training step, as a framework would build it.
#pragma once
#include "sim/options.h"
#include "traces/generate/model.h"
#include "traces/trace.h"

namespace baechi {

enum class Level : std::uint8_t {
  module,  ///< an op per layer or module, one for its backward pass, one for its update: PyTorch
  tf1,     ///< the ops of TensorFlow 1.12's graph
};
enum class Optimizer : std::uint8_t { none, sgd, momentum, adam, rmsprop };

/// What every model can be asked for.
struct Expansion {
  std::int64_t batch = 1;
  Level level = Level::module;
  Optimizer optimizer = Optimizer::none;
  bool training = true;            ///< else the forward pass alone
  bool fuse_modules = true;        ///< module level: an op per module, not per layer
  bool colocate_gradients = true;  ///< tf1: gradients go where their forward op goes
};
/// Declares and reads `batch`, `level`, `optimizer` and the rest.
Expansion read_expansion(Options& options, std::int64_t batch, Optimizer optimizer);

/// The graph with work in place of times. Its name is "MODEL-bBATCH".
Trace expand(const Model& model, const Expansion& expansion);

OpGraph module_graph(const Model& model, const Expansion& expansion);
OpGraph tf1_graph(const Model& model, const Expansion& options);

/// Words of state that an optimizer holds per parameter: momentum, second moment, ...
int slots(Optimizer optimizer);
/// What updating `parameters` from their gradients takes.
OpWork update_work(Optimizer optimizer, std::int64_t parameters);
/// "ApplyAdam": the kind of TensorFlow's op.
std::string_view update_kind(Optimizer optimizer);

}  // namespace baechi
