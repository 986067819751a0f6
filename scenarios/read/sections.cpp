#include "scenarios/read/sections.h"

#include <algorithm>
#include <iterator>
#include <map>

#include "scenarios/read/paths.h"
#include "scenarios/read/section.h"
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

Options options_of(const Value& section, std::string owner, const std::string& base,
                   const std::vector<std::string>& except) {
  if (is_list(section) || (section.children.empty() && !section.text.empty()))
    throw InputError(fmt::format("{}{}: {} is not a mapping of options", at(section.where), owner,
                                 is_list(section) ? "a list" : fmt::format("'{}'", section.text)));
  std::map<std::string, Value> values;
  for (const auto& [key, child] : section.children) {
    if (std::ranges::find(except, key) != except.end()) continue;
    expand(values.emplace(key, child).first->second);
  }
  return Options(std::move(owner), std::move(values), base);
}

void need(const Value& section, std::string_view owner,
          std::initializer_list<std::string_view> keys, Mistakes& mistakes) {
  for (const std::string_view key : keys) {
    if (find(section, key) == nullptr)
      mistakes.add(fmt::format("{}{}: it needs '{}'", at(section.where), owner, key));
  }
}

std::vector<SectionKeys> section_keys() {
  std::vector<SectionKeys> all = cluster_section_keys();
  all.push_back(
      {"kinds.devices",
       "entries NAME: {...}, with a base, or with peak, bandwidth and memory; an op of known work "
       "takes launch + the longer of flops / (peak x efficiency) and traffic / (bandwidth x "
       "bandwidth_efficiency)",
       device_kind_options(),
       {}});
  all.push_back({"kinds.links", "entries NAME: {...}", link_kind_options(), {"bandwidth"}});
  all.push_back(calibration_section_keys());
  std::ranges::move(engine_section_keys(), std::back_inserter(all));
  all.push_back(codesign_section_keys());
  all.push_back(report_section_keys());
  return all;
}

}  // namespace baechi
