#include "sim/transform/training/segments.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "sim/error.h"
#include "sim/text.h"

namespace baechi {

std::string_view layer_of(std::string_view name) {
  bool number = false;  // in the parts so far
  for (std::size_t i = 0; i < name.size(); ++i) {
    if (number && (name[i] == '/' || name[i] == '.')) return name.substr(0, i);
    number = number || (name[i] >= '0' && name[i] <= '9');
  }
  return {};
}

Segments segments_by_layer(const OpGraph& graph) {
  Segments segment(graph.num_ops(), no_segment);
  std::map<std::string, std::uint32_t, std::less<>> known;
  auto last = known.end();  // the layer of the previous op, usually the same
  for (const OpId v : graph.ops()) {
    if (graph.op(v).phase != Phase::forward) continue;
    const std::string_view layer = layer_of(graph.name(v));
    if (layer.empty()) continue;
    if (last == known.end() || last->first != layer)
      last = known.emplace(layer, static_cast<std::uint32_t>(known.size())).first;
    segment[v] = last->second;
  }
  const auto backward = [&](OpId v) { return graph.op(v).phase == Phase::backward; };
  if (known.empty() && std::ranges::any_of(graph.ops(), backward))
    throw InputError(
        "recompute: no name of a forward op has a part with a number, which would say its layer; "
        "give segments: N, or names: [pattern, ...]");
  return segment;
}

Segments segments_by_bytes(const OpGraph& graph, std::uint32_t count) {
  const auto written = [&](OpId v) {
    std::int64_t sum = 1;  // so that ops without outputs count, too
    for (const TensorId t : graph.outputs(v)) sum += graph.tensor(t).held().count;
    return graph.op(v).phase == Phase::forward ? sum : 0;
  };
  double all = 0.0, before = 0.0;
  for (const OpId v : graph.ops()) all += static_cast<double>(written(v));
  Segments segment(graph.num_ops(), no_segment);
  for (const OpId v : graph.ops()) {
    if (graph.op(v).phase != Phase::forward) continue;
    segment[v] = std::min(count - 1, static_cast<std::uint32_t>(before / all * count));
    before += static_cast<double>(written(v));
  }
  return segment;
}

Segments segments_by_names(const OpGraph& graph, const std::vector<std::string>& patterns) {
  Segments segment(graph.num_ops(), no_segment);
  for (std::uint32_t p = 0; p < patterns.size(); ++p) {
    bool any = false;
    for (const OpId v : graph.ops()) {
      if (graph.op(v).phase != Phase::forward || !Wildcard{patterns[p]}.matches(graph.name(v)))
        continue;
      any = true;
      if (segment[v] == no_segment) segment[v] = p;
    }
    if (!any)
      throw InputError(fmt::format("recompute: no forward op has a name like '{}'", patterns[p]));
  }
  return segment;
}

}  // namespace baechi
