#include "placers/model_layers.h"

#include <map>

namespace baechi {
namespace {

/// "12" or "layer_12".
bool ends_with_number(std::string_view part) {
  const std::size_t digits =
      part.size() - std::min(part.find_last_not_of("0123456789") + 1, part.size());
  return digits > 0 && (digits == part.size() || part[part.size() - digits - 1] == '_');
}

}  // namespace

bool is_numbered(std::string_view layer) {
  return ends_with_number(layer.substr(layer.rfind('.') + 1));
}

std::string module_layer(std::string_view module) {
  for (std::size_t begin = 0; begin < module.size();) {
    const std::size_t end = std::min(module.find('.', begin), module.size());
    if (ends_with_number(module.substr(begin, end - begin)))
      return std::string(module.substr(0, end));
    begin = end + 1;
  }
  return std::string(module.substr(0, module.find('.')));
}

ModelLayers::ModelLayers(const OpGraph& graph, const std::function<bool(OpId)>& elsewhere,
                         const ModelLayers* like)
    : of(graph.num_ops(), none) {
  std::map<std::string, std::uint32_t> numbers;
  if (like != nullptr) names = like->names;
  for (std::uint32_t l = 0; l < names.size(); ++l) numbers[names[l]] = l;
  const auto number = [&](const std::string& layer) {
    const auto [found, made] = numbers.try_emplace(layer, static_cast<std::uint32_t>(names.size()));
    if (made) names.push_back(layer);
    return found->second;
  };
  for (const OpId v : graph.ops()) {
    if (elsewhere(v)) continue;
    const auto before = graph.predecessors(v);
    const OpId forward = graph.op(v).forward;
    const std::string layer = module_layer(graph.module(v));
    if (!layer.empty() && (like == nullptr || numbers.contains(layer)))
      of[v] = number(layer);
    else if (forward != no_op)
      of[v] = of[forward];
    else
      of[v] = before.empty() || of[before.front()] == none ? number(names.empty() ? "" : names[0])
                                                           : of[before.front()];
  }
  for (const GroupId g : graph.groups()) {
    std::uint32_t last = 0;
    for (const OpId v : graph.members(g))
      if (of[v] != none) last = std::max(last, of[v]);
    for (const OpId v : graph.members(g))
      if (of[v] != none) of[v] = last;
  }
}

}  // namespace baechi
