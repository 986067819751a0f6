#include "placers/model_layers.h"

#include <algorithm>
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

std::string layer_of(std::string_view module) {
  for (std::size_t begin = 0; begin < module.size();) {
    const std::size_t end = std::min(module.find('.', begin), module.size());
    if (ends_with_number(module.substr(begin, end - begin)))
      return std::string(module.substr(0, end));
    begin = end + 1;
  }
  return std::string(module.substr(0, module.find('.')));
}

ModelLayers::ModelLayers(const OpGraph& graph, const std::function<bool(OpId)>& elsewhere)
    : of(graph.num_ops(), none) {
  std::map<std::string, std::uint32_t> numbers;
  const auto number = [&](std::string_view module) {
    const auto [found, made] =
        numbers.try_emplace(layer_of(module), static_cast<std::uint32_t>(names.size()));
    if (made) names.push_back(found->first);
    return found->second;
  };
  for (const OpId v : graph.ops()) {
    if (elsewhere(v)) continue;
    const auto before = graph.predecessors(v);
    const OpId forward = graph.op(v).forward;
    if (!graph.module(v).empty())
      of[v] = number(graph.module(v));
    else if (forward != no_op)
      of[v] = of[forward];
    else
      of[v] = before.empty() || of[before.front()] == none ? number("") : of[before.front()];
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
