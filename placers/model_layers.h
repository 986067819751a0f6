/// The layers of a model by the paths of its modules.
#pragma once

#include "sim/graph/op_graph.h"

namespace baechi {

/// Parts of a model that stay whole: "layer_3", "model.layers.3" or, outside numbered layers, the
/// first part of a module's path. In the order of their first ops.
struct ModelLayers {
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  std::vector<std::string> names;
  /// [num_ops] none: elsewhere. An op without a module is in the layer of its first input; ops of
  /// one colocation group are in the last layer of any of them.
  IdVector<OpId, std::uint32_t> of;

  /// `like`: the layers of another pass of the model, which have the same names.
  ModelLayers(const OpGraph& graph, const std::function<bool(OpId)>& elsewhere,
              const ModelLayers* like = nullptr);
  std::size_t size() const { return names.size(); }
};

/// The path of the layer that contains the module, and whether it is a numbered one.
std::string module_layer(std::string_view module);
bool is_numbered(std::string_view layer);

}  // namespace baechi
