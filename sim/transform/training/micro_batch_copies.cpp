#include "sim/transform/training/micro_batch_copies.h"

#include <map>
#include <optional>
#include <string_view>

#include "sim/text.h"

namespace baechi {
namespace {

struct CopyName {
  std::string_view first;
  std::uint32_t number = 0;
};

std::optional<CopyName> copy_name(std::string_view name) {
  const std::size_t end = name.rfind('@');
  if (end == std::string_view::npos) return std::nullopt;
  const auto number = parse_number<std::uint32_t>(name.substr(end + 1));
  if (!number || *number == 0) return std::nullopt;
  return CopyName{name.substr(0, end), *number};
}

}  // namespace

IdVector<OpId, MicroBatchCopy> micro_batch_copies(const OpGraph& graph) {
  IdVector<OpId, MicroBatchCopy> copies;
  std::map<std::string_view, OpId> wanted;  // first copies
  for (const OpId v : graph.ops()) {
    copies.push_back({v});
    if (const auto name = copy_name(graph.name(v))) wanted.emplace(name->first, no_op);
  }
  if (wanted.empty()) return copies;
  for (const OpId v : graph.ops())
    if (const auto it = wanted.find(graph.name(v)); it != wanted.end()) it->second = v;
  for (const OpId v : graph.ops()) {
    const auto name = copy_name(graph.name(v));
    if (!name || graph.op(v).persistent > Bytes{}) continue;
    const OpId first = wanted.at(name->first);
    if (first == no_op) continue;
    const Op &a = graph.op(first), &b = graph.op(v);
    if (a.kind == b.kind && a.phase == b.phase && a.group == b.group)
      copies[v] = {first, name->number};
  }
  return copies;
}

}  // namespace baechi
