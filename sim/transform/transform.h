/// Transforms of graphs before, and of steps after placing. A transform is a pure function of the
/// graph and its options.
#pragma once
#include <memory>

#include "sim/graph/op_graph.h"
#include "sim/options.h"

namespace baechi {

/// The result of a transform.
struct Transformed {
  OpGraph graph;
  /// [num_ops of the input] For each op of the input, the op of `graph` that represents it: both
  /// are placed on the same device. no_op: the transform removed the op from the model.
  IdVector<OpId, OpId> mapped_op{};
  /// Memory that at least one device must have, else placing `graph` is infeasible; `needs_why` is
  /// the reason for the message.
  Bytes needs{};
  std::string needs_why{};
  /// Samples per step of `graph`, relative to the input's step.
  double batches = 1.0;
};

/// The result of a transform that keeps the ops and ids of its input.
Transformed same_ops(OpGraph graph);

/// A training step with a device for every op.
struct PlacedStep {
  OpGraph graph;
  IdVector<OpId, DeviceId> device{};  ///< [num_ops]
};

/// The step of `graph`, whose builder gave `renumbered`; `device`: by id of the builder.
PlacedStep placed_step(OpGraph graph, const IdVector<OpId, OpId>& renumbered,
                       const IdVector<OpId, DeviceId>& device);

/// Properties of a pipeline schedule that transforms may not support.
struct PipelineTraits {
  bool turns = false;          ///< two forward passes in a row on the last device (Layout::vee)
  bool bidirectional = false;  ///< micro-batches enter at both ends (Layout::two_way)
  bool splits = false;         ///< weight gradients have passes of their own
};

class Transform {
 public:
  virtual ~Transform() = default;
  virtual Transformed apply(const OpGraph& graph) const = 0;
  /// The step to simulate, given the devices `device` [num_ops] of the ops of `graph`, the result
  /// of apply(). Overridden by transforms with TransformUse::placed only.
  virtual PlacedStep after_placing(const OpGraph& graph,
                                   const IdVector<OpId, DeviceId>& device) const {
    return {graph, device};
  }
  /// Why this transform does not support such a pipeline; "" if it does.
  virtual std::string no_pipeline(PipelineTraits /*pipeline*/) const { return ""; }
  /// Whether this transform must come after the transform `other` in a list.
  virtual bool must_follow(std::string_view /*other*/) const { return false; }
  /// Whether it applies the transform `other`, as rules of a what-if may.
  virtual bool applies(std::string_view /*other*/) const { return false; }
  /// The same transform where the host takes `host_op` per kernel; null: that does not matter.
  virtual std::shared_ptr<const Transform> launching(Duration /*host_op*/) const { return nullptr; }
  /// The least number of devices of the resulting step.
  virtual std::int64_t devices() const { return 1; }
};

/// The transform whose apply() is `apply`.
template <class Apply>
std::unique_ptr<Transform> transform_of(Apply apply) {
  struct Function final : Transform {
    explicit Function(Apply function) : apply_(std::move(function)) {}
    Transformed apply(const OpGraph& graph) const override { return apply_(graph); }
    Apply apply_;
  };
  return std::make_unique<Function>(std::move(apply));
}

/// Applies `second` to the graph of `first`. In the result, `mapped_op` maps from the input of
/// `first` to the graph of `second`, and `needs` is the larger of the two.
Transformed then(Transformed first, const Transform& second);

/// Whether the result of a transform is placed, simulated or both.
enum class TransformUse : std::uint8_t {
  model,    ///< changes the step: its result is placed and simulated
  placing,  ///< its result is placed; the step of its input is simulated
  /// Its result is placed; after_placing() then changes the step, given the ops' devices.
  placed,
};

using MakeTransform = std::unique_ptr<Transform>(Options&);
struct TransformEntry {
  std::string_view name;     ///< as written in a scenario: `transforms: [coplace, fuse]`
  std::string_view summary;  ///< one line for `list transforms`
  std::string_view source;   ///< paper and section
  TransformUse use;
  MakeTransform* make;
};
std::span<const TransformEntry> transforms();

/// Throws InputError on an unknown name or option, or a bad value; `where` begins the message.
std::unique_ptr<Transform> make_transform(std::string_view name, Options options,
                                          const std::string& where = {});

}  // namespace baechi
