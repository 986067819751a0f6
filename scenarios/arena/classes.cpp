#include "scenarios/arena/classes.h"

#include <cmath>

namespace baechi {
namespace {

/// The text between `key` and the next comma of the name: "4 GB/s" for ", bandwidth ".
std::string part_of(const std::string& name, std::string_view key) {
  const std::size_t at = name.find(key);
  if (at == std::string::npos) return "";
  const std::size_t begin = at + key.size(), end = name.find(',', begin);
  return name.substr(begin, end == std::string::npos ? end : end - begin);
}

/// The memory in the name of an instance; all sizes of one scenario have the same unit.
double memory_of(const std::string& name) {
  const std::string fraction = part_of(name, ", memory_fraction ");
  return std::strtod((fraction.empty() ? part_of(name, ", memory ") : fraction).c_str(), nullptr);
}

std::string scenario_of(const std::string& name) { return name.substr(0, name.find(',')); }

using Members = std::vector<const ArenaInstance*>;

ArenaClass scored(std::string name, const Members& members,
                  const std::vector<std::string>& placers) {
  ArenaClass result{.name = std::move(name), .instances = 0, .scores = {}};
  result.instances = static_cast<std::size_t>(
      std::ranges::count_if(members, [](const ArenaInstance* i) { return i->best.has_value(); }));
  for (const std::string& placer : placers) {
    ClassScore score;
    double logs = 0.0;
    for (const ArenaInstance* i : members) {
      if (!i->best) continue;
      const auto it = i->values.find(placer);
      if (it == i->values.end() || !it->second) continue;
      ++score.solved;
      logs += std::log(static_cast<double>(it->second->count()) /
                       static_cast<double>(std::max<std::int64_t>(1, i->best->count())));
    }
    if (score.solved > 0) score.ratio = std::exp(logs / static_cast<double>(score.solved));
    result.scores.push_back(score);
  }
  return result;
}

}  // namespace

std::vector<ArenaClass> arena_classes(const Arena& arena, const std::vector<std::string>& placers) {
  std::map<std::string, std::set<double>> memories;  // by scenario
  for (const auto& [name, instance] : arena.instances())
    if (memory_of(name) > 0) memories[scenario_of(name)].insert(memory_of(name));
  std::vector<ArenaClass> classes;
  const auto add = [&](const std::string& name,
                       const std::function<bool(const ArenaInstance&)>& among) {
    Members members;
    for (const auto& [key, instance] : arena.instances())
      if (among(instance)) members.push_back(&instance);
    ArenaClass one = scored(name, members, placers);
    if (one.instances > 0) classes.push_back(std::move(one));
  };
  add("up to 300 ops", [](const auto& i) { return i.ops <= 300; });
  add("301 to 1000 ops", [](const auto& i) { return i.ops > 300 && i.ops <= 1000; });
  add("more ops", [](const auto& i) { return i.ops > 1000; });
  constexpr std::array times{"1.05", "1.2", "1.5", "2"};  // relative to the least, ascending
  for (std::size_t rank = 0; rank < times.size(); ++rank)
    add(std::string("memory ") + times[rank] + " x the least", [&](const auto& i) {
      const auto known = memories.find(scenario_of(i.name));
      if (known == memories.end() || known->second.size() != times.size()) return false;
      const auto& sizes = known->second;
      return std::distance(sizes.begin(), sizes.find(memory_of(i.name))) ==
             static_cast<std::ptrdiff_t>(rank);
    });
  for (const std::string link : {"4 GB/s", "100 GB/s"})
    add("links of " + link, [&](const auto& i) { return part_of(i.name, ", bandwidth ") == link; });
  const auto has = [](const ArenaInstance& i, std::string_view part) {
    return scenario_of(i.name).find(part) != std::string::npos;
  };
  add("two equal devices", [&](const auto& i) { return has(i, ".2."); });
  add("four equal devices", [&](const auto& i) { return has(i, ".4.") || has(i, ".uniform."); });
  add("two nodes of two devices", [&](const auto& i) { return has(i, ".nodes."); });
  add("two fast devices, two slow", [&](const auto& i) { return has(i, ".mixed."); });
  return classes;
}

}  // namespace baechi
