/// A transform rewrites a graph before it is placed. Pure: equal graph and options, equal result.
#pragma once
#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "sim/graph/op_graph.h"
#include "sim/options.h"

namespace baechi {

struct Transformed {
  OpGraph graph;
  /// [num_ops of the input]: the op of `graph` that stands for it: where that goes, it goes. no_op:
  /// it is gone from the model.
  IdVector<OpId, OpId> stands_for{};
  /// What one device must have, or placing `graph` is refused as infeasible, saying `needs_why`.
  Bytes needs{};
  std::string needs_why{};
};

/// `graph` with the ops and ids of the input.
Transformed same_ops(OpGraph graph);

/// A step with its ops on devices. [num_ops]
struct PlacedStep {
  OpGraph graph;
  IdVector<OpId, DeviceId> device{};
};

class Transform {
 public:
  virtual ~Transform() = default;
  virtual Transformed apply(const OpGraph& graph) const = 0;
  /// Of TransformUse::placed: what is simulated of `graph` once its ops are on `device`.
  virtual PlacedStep after_placing(const OpGraph& graph,
                                   const IdVector<OpId, DeviceId>& device) const {
    return {graph, device};
  }
};

/// What `first` made, with `second` applied to it: ids lead from the input of `first` to the last
/// graph, and of what is needed the larger counts.
Transformed then(Transformed first, const Transform& second);

/// What a transform is for.
enum class TransformUse : std::uint8_t {
  model,    ///< the step itself changes: placed and simulated is what comes out
  placing,  ///< only placers see what comes out; the step that is simulated is that of the input
  placed,   ///< placers do not see it; it changes the step by where ops were placed
};

struct TransformEntry {
  std::string_view name;     ///< as written in a scenario: `transforms: [coplace, fuse]`
  std::string_view summary;  ///< one line for `list transforms`
  std::string_view source;   ///< paper and section
  TransformUse use;
  std::unique_ptr<Transform> (*make)(Options&);
};
std::span<const TransformEntry> transforms();

/// Throws InputError on an unknown name or option, or a bad value; `where` begins the message.
std::unique_ptr<Transform> make_transform(std::string_view name, Options options,
                                          const std::string& where = {});

}  // namespace baechi
