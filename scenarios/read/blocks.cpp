#include "scenarios/read/blocks.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "scenarios/read/block.h"
#include "scenarios/read/paths.h"
#include "scenarios/read/tree.h"

namespace baechi {
namespace {

using Value = Options::Value;

/// Replaces ${NAME} in all texts of `value`.
void expand(Value& value) {
  value.text = resolve_path(value, "");
  for (auto& [key, child] : value.children) expand(child);
}

}  // namespace

Options options_of(const Value& block, std::string owner, const std::string& base,
                   const std::vector<std::string>& except) {
  if (is_list(block) || (block.children.empty() && !block.text.empty()))
    throw InputError(fmt::format("{}{}: {} is not a mapping of options", at(block.where), owner,
                                 is_list(block) ? "a list" : fmt::format("'{}'", block.text)));
  std::map<std::string, Value> values;
  for (const auto& [key, child] : block.children) {
    if (std::ranges::find(except, key) != except.end()) continue;
    expand(values.emplace(key, child).first->second);
  }
  return Options(std::move(owner), std::move(values), base);
}

void need(const Value& block, std::string_view owner, std::initializer_list<std::string_view> keys,
          Mistakes& mistakes) {
  for (const std::string_view key : keys) {
    if (find(block, key) == nullptr)
      mistakes.add(fmt::format("{}{}: it needs '{}'", at(block.where), owner, key));
  }
}

std::vector<BlockKeys> block_keys() {
  std::vector<BlockKeys> all = cluster_block_keys();
  all.push_back(
      {"kinds.devices",
       "entries NAME: {...}; an op of known work takes launch + the longer of flops / (peak x "
       "efficiency) and traffic / (bandwidth x bandwidth_efficiency)",
       device_kind_options(),
       {"peak", "bandwidth", "memory"}});
  all.push_back({"kinds.links", "entries NAME: {...}", link_kind_options(), {"bandwidth"}});
  all.push_back(calibration_block_keys());
  std::ranges::move(engine_block_keys(), std::back_inserter(all));
  all.push_back(codesign_block_keys());
  all.push_back(report_block_keys());
  return all;
}

}  // namespace baechi
