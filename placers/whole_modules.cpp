#include "placers/whole_modules.h"

#include <algorithm>
#include <boost/graph/properties.hpp>  // before disjoint_sets.hpp, which takes its get()
#include <boost/pending/disjoint_sets.hpp>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <string_view>

#include "sim/error.h"

namespace baechi {
namespace {

using Paths = std::set<std::string_view>;

bool is_inside(std::string_view path, std::string_view outer) {
  return outer.empty()
             ? !path.empty()
             : path.size() > outer.size() && path.starts_with(outer) && path[outer.size()] == '.';
}

/// The inputs of an op directly inside a module, by their origin.
struct Sources {
  std::set<std::string_view> inner;  ///< modules inside it
  bool outside = false;
};

/// Determines which modules cannot be divided, and which must be together.
class Division {
 public:
  explicit Division(const OpGraph& graph) : graph_(graph), sources_(graph.num_ops()) {
    for (const OpId v : graph.ops()) paths_.insert(graph.module(v));
    paths_.erase("");
  }

  WholeModules run() {
    if (paths_.empty()) throw InputError("no op has a module of the model (key `module` of an op)");
    for (const OpId v : graph_.ops()) look_at(v);
    WholeModules result;
    result.of.assign(graph_.num_ops(), WholeModules::none);
    for (const OpId v : graph_.ops()) {
      const auto path = unit(graph_.module(v));
      if (!path) continue;
      const auto next = static_cast<std::uint32_t>(result.names.size());
      const auto [known, fresh] = number_.try_emplace(*path, next);
      if (fresh) result.names.emplace_back(*path);
      result.of[v] = known->second;
    }
    join(result);
    return result;
  }

 private:
  /// Whether `path` is empty or has inner modules.
  bool has_inner(std::string_view path) const {
    if (path.empty()) return true;
    auto after = paths_.upper_bound(path);  // "a-b" may stand between "a" and "a.b"
    while (after != paths_.end() && after->starts_with(path)) {
      if (is_inside(*after, path)) return true;
      ++after;
    }
    return false;
  }

  /// The origins of what `v` reads, directly or through ops directly inside the same module.
  const Sources& sources(OpId v) {
    std::optional<Sources>& known = sources_[v];
    if (known) return *known;
    Sources found;
    const std::string_view path = graph_.module(v);
    for (const EdgeId e : graph_.in_edges(v)) {
      if (graph_.tensor(graph_.edge(e).tensor).control) continue;
      const OpId src = graph_.edge(e).src;
      const std::string_view from = graph_.module(src);
      if (graph_.op(src).phase != Phase::forward) continue;
      if (from == path) {
        const Sources& before = *sources_[src];  // src < v: known
        found.inner.insert(before.inner.begin(), before.inner.end());
        found.outside = found.outside || before.outside;
      } else if (is_inside(from, path)) {
        found.inner.insert(from);
      } else {
        found.outside = true;
      }
    }
    known = std::move(found);
    return *known;
  }

  void look_at(OpId v) {
    if (graph_.op(v).phase != Phase::forward) return;
    const std::string_view path = graph_.module(v);
    const Sources& read = sources(v);
    if (!has_inner(path)) return;
    if (graph_.op(v).persistent > Bytes{} || (!path.empty() && read.outside && !read.inner.empty()))
      whole_.insert(path);
    for (const std::string_view inner : read.inner) pairs_.emplace_back(*read.inner.begin(), inner);
  }

  /// The outermost module that is whole, else `path`; nothing for an op directly inside a divided
  /// one.
  std::optional<std::string_view> unit(std::string_view path) const {
    if (whole_.contains("")) return "";
    for (std::size_t end = path.find('.'); end != std::string_view::npos;
         end = path.find('.', end + 1))
      if (whole_.contains(path.substr(0, end))) return path.substr(0, end);
    if (path.empty() || (has_inner(path) && !whole_.contains(path))) return std::nullopt;
    return path;
  }

  void join(WholeModules& result) const {
    const std::size_t n = result.names.size();
    boost::disjoint_sets_with_storage<> sets(n);
    for (const auto& [a, b] : pairs_) {
      const auto left = unit(a), right = unit(b);
      if (left && right) sets.union_set(number_.at(*left), number_.at(*right));
    }
    for (const GroupId g : graph_.groups()) {
      std::uint32_t first = WholeModules::none;
      for (const OpId v : graph_.members(g)) {
        if (result.of[v] == WholeModules::none) continue;
        if (first == WholeModules::none) first = result.of[v];
        sets.union_set(first, result.of[v]);
      }
    }
    std::vector<std::uint32_t> least(n, WholeModules::none);
    for (std::uint32_t u = 0; u < n; ++u) {
      std::uint32_t& known = least[sets.find_set(u)];
      known = std::min(known, u);
      result.together.push_back(known);
    }
  }

  const OpGraph& graph_;
  Paths paths_, whole_;
  std::vector<std::pair<std::string_view, std::string_view>> pairs_;  // modules that share an op
  IdVector<OpId, std::optional<Sources>> sources_;
  std::map<std::string_view, std::uint32_t> number_;
};

std::string_view outer_of(std::string_view path) {
  const std::size_t end = path.rfind('.');
  return end == std::string_view::npos ? std::string_view() : path.substr(0, end);
}

}  // namespace

WholeModules whole_modules(const OpGraph& graph) {
  return Division(graph).run();
}

std::vector<DeviceId> devices_of_modules(const Problem& problem, const WholeModules& modules,
                                         const Placement& placement) {
  const std::size_t devices = problem.cluster.num_devices();
  std::vector<Duration> time(modules.names.size() * devices);
  for (const OpId v : problem.graph.ops()) {
    if (modules.of[v] == WholeModules::none) continue;
    const DeviceId d = placement.device[v];
    // One nanosecond is added so that ops without time count, too.
    time[modules.together[modules.of[v]] * devices + index(d)] +=
        problem.costs.compute(v, d) + Duration{1};
  }
  std::vector<DeviceId> result;
  for (const std::uint32_t first : modules.together) {
    const auto begin = time.begin() + static_cast<std::ptrdiff_t>(first * devices);
    const auto longest = std::max_element(begin, begin + static_cast<std::ptrdiff_t>(devices));
    result.push_back(static_cast<DeviceId>(longest - begin));
  }
  return result;
}

OpGraph group_modules(const OpGraph& graph, const WholeModules& modules) {
  const auto n = static_cast<std::uint32_t>(modules.names.size());
  std::vector<std::string> names = modules.names;
  for (const GroupId g : graph.groups()) names.push_back(graph.group_name(g));
  IdVector<OpId, GroupId> group(graph.num_ops(), no_group);
  for (const OpId v : graph.ops()) {
    const std::uint32_t of = modules.of[v];
    const GroupId own = graph.op(v).group;
    if (of != WholeModules::none)
      group[v] = static_cast<GroupId>(modules.together[of] + 1);
    else if (own != no_group)
      group[v] = static_cast<GroupId>(n + index(own));
  }
  // An op without a module keeps its group, whose other ops may be in modules now.
  for (const GroupId g : graph.groups())
    for (const OpId v : graph.members(g))
      if (modules.of[v] != WholeModules::none) {
        for (const OpId other : graph.members(g)) group[other] = group[v];
        break;
      }
  return graph.with_groups(group, names);
}

Placement place_on_modules(const OpGraph& graph, const WholeModules& modules,
                           const std::vector<DeviceId>& device) {
  Placement placement;
  placement.device.assign(graph.num_ops(), DeviceId{0});
  IdVector<GroupId, std::optional<DeviceId>> home(graph.num_groups() + 1);
  for (const OpId v : graph.ops())
    if (modules.of[v] != WholeModules::none) home[graph.op(v).group] = device[modules.of[v]];
  home[no_group] = std::nullopt;
  for (const OpId v : graph.ops()) {
    DeviceId& d = placement.device[v];
    std::optional<DeviceId>& group_home = home[graph.op(v).group];
    if (modules.of[v] != WholeModules::none) {
      d = device[modules.of[v]];
    } else if (group_home) {
      d = *group_home;
    } else if (graph.op(v).forward != no_op && graph.op(v).forward < v) {
      d = placement.device[graph.op(v).forward];
    } else {
      Bytes largest{-1};
      for (const EdgeId e : graph.in_edges(v)) {
        const Tensor& tensor = graph.tensor(graph.edge(e).tensor);
        if (tensor.copied() > largest) d = placement.device[tensor.producer];
        largest = std::max(largest, tensor.copied());
      }
    }
    if (graph.op(v).group != no_group && !group_home) group_home = d;
  }
  return placement;
}

std::vector<std::pair<std::string, DeviceId>> device_map(const WholeModules& modules,
                                                         const std::vector<DeviceId>& device) {
  // The common device of all modules inside a path, if there is one.
  std::map<std::string_view, std::optional<DeviceId>> only;
  for (std::size_t u = 0; u < modules.names.size(); ++u) {
    for (std::string_view path = modules.names[u];; path = outer_of(path)) {
      const auto [known, fresh] = only.try_emplace(path, device[u]);
      if (!fresh && known->second != device[u]) known->second.reset();
      if (path.empty()) break;
    }
  }
  std::vector<std::pair<std::string, DeviceId>> map;
  std::set<std::string_view> listed;
  for (const std::string& name : modules.names) {
    std::string_view path = name;
    while (!path.empty() && only.at(outer_of(path))) path = outer_of(path);
    if (listed.insert(path).second) map.emplace_back(path, *only.at(path));
  }
  return map;
}

}  // namespace baechi
