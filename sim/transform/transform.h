/// Transforms, which make a graph of a graph before it is placed. A transform is a pure function:
/// an equal graph and equal options give an equal result.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "sim/graph/op_graph.h"
#include "sim/options.h"

namespace baechi {

/// The result of a transform.
struct Transformed {
  OpGraph graph;
  /// [num_ops of the input] For each op of the input, the op of `graph` that stands for it: both
  /// are placed on the same device. no_op: the transform removed the op from the model.
  IdVector<OpId, OpId> stands_for{};
  /// Memory that at least one device must have. If no device has it, placing `graph` is infeasible,
  /// and `needs_why` is the reason that the message gives.
  Bytes needs{};
  std::string needs_why{};
  /// So many times the samples of the input's step are in that of `graph`.
  double batches = 1.0;
};

/// The result of a transform that keeps the ops and ids of its input: each op stands for itself.
Transformed same_ops(OpGraph graph);

/// A training step with a device for every op.
struct PlacedStep {
  OpGraph graph;
  IdVector<OpId, DeviceId> device{};  ///< [num_ops]
};

/// A pipeline, as far as transforms of the step that it streams ask.
struct StreamedBy {
  bool turns = false;      ///< two of them follow each other on the last device
  bool both_ways = false;  ///< micro-batches enter at both ends
  bool splits = false;     ///< gradients of weights are made in passes of their own
};

class Transform {
 public:
  virtual ~Transform() = default;
  virtual Transformed apply(const OpGraph& graph) const = 0;
  /// The step that is simulated once the ops of `graph`, which apply() made, are on the devices
  /// `device` [num_ops]. Only a transform with TransformUse::placed changes it.
  virtual PlacedStep after_placing(const OpGraph& graph,
                                   const IdVector<OpId, DeviceId>& device) const {
    return {graph, device};
  }
  /// Why no pipeline of this kind can stream micro-batches through the step that this makes; "" if
  /// it can.
  virtual std::string no_pipeline(StreamedBy /*pipeline*/) const { return ""; }
  /// True if the transform called `other` stands before this one, because this one changes its
  /// results.
  virtual bool stands_behind(std::string_view /*other*/) const { return false; }
  /// Whether it applies the transform called `other`, as rules of a what-if may.
  virtual bool applies(std::string_view /*other*/) const { return false; }
  /// The step that it makes is on at least so many devices.
  virtual std::int64_t devices() const { return 1; }
};

/// Applies `second` to the graph of `first`. In the result, `stands_for` leads from the input of
/// `first` to the graph of `second`, and `needs` is the larger of the two.
Transformed then(Transformed first, const Transform& second);

/// Whether placers, the simulation or both see the result of a transform.
enum class TransformUse : std::uint8_t {
  model,    ///< changes the step: its result is placed and simulated
  placing,  ///< its result is placed; the step of its input is simulated
  /// Its result is placed and simulated, but once it is placed it changes the step again, by the
  /// ops' devices. Most change it only then.
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
