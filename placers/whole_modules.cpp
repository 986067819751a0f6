#include "placers/whole_modules.h"

#include <fnmatch.h>

#include <boost/graph/properties.hpp>  // before disjoint_sets.hpp, which takes its get()
#include <boost/pending/disjoint_sets.hpp>
#include <numeric>

#include "placers/line_cuts.h"
#include "sim/error.h"

namespace baechi {
namespace {

bool is_inside(std::string_view path, std::string_view outer) {
  return outer.empty()
             ? !path.empty()
             : path.size() > outer.size() && path.starts_with(outer) && path[outer.size()] == '.';
}

std::string_view outer_of(std::string_view path) {
  const std::size_t end = path.rfind('.');
  return end == std::string_view::npos ? std::string_view() : path.substr(0, end);
}

/// Determines the modules that have devices of their own, and which must be together.
class Division {
 public:
  Division(const OpGraph& graph, const DivisionRules& rules) : graph_(graph), rules_(rules) {
    for (const OpId v : graph.ops()) {
      const std::string_view path = graph.module(v);
      const auto end = static_cast<std::uint32_t>(graph.num_ops() + node_.size());
      if (!path.empty()) node_.try_emplace(path, end);
    }
    for (const auto& [path, number] : node_) called_.emplace(path);
    const auto end = static_cast<std::uint32_t>(graph.num_ops() + node_.size());
    node_.emplace("", end);
  }

  WholeModules run() {
    decide();
    if (rules_.stages && find_whole()) decide();
    WholeModules result;
    result.called = called_;
    name_modules(result);
    join(result);
    result.of.assign(graph_.num_ops(), none);
    for (const OpId v : graph_.ops())
      if (graph_.op(v).phase == Phase::forward) result.of[v] = module_of(v, result);
    for (const OpId v : graph_.ops())
      if (result.of[v] == none) result.of[v] = follow(v, result.of);
    return result;
  }

 private:
  static constexpr std::uint32_t none = ~std::uint32_t{0};

  bool has_inner(std::string_view path) const {
    if (path.empty()) return true;
    auto after = node_.upper_bound(path);  // "a-b" may stand between "a" and "a.b"
    while (after != node_.end() && after->first.starts_with(path)) {
      if (is_inside(after->first, path)) return true;
      ++after;
    }
    return false;
  }

  bool is_whole(std::string_view path) const {
    return whole_.contains(path) || std::ranges::any_of(rules_.no_split, [&](const auto& pattern) {
             return fnmatch(pattern.c_str(), std::string(path).c_str(), 0) == 0;
           });
  }

  /// The outermost module that is whole, else `path`; nothing for a divided module.
  std::optional<std::string_view> find_unit(std::string_view path) const {
    for (std::size_t end = path.find('.'); end != std::string_view::npos;
         end = path.find('.', end + 1))
      if (is_whole(path.substr(0, end))) return path.substr(0, end);
    if (path.empty() || (has_inner(path) && !is_whole(path))) return std::nullopt;
    return path;
  }
  std::optional<std::string_view> unit(std::string_view path) {
    const auto [known, fresh] = unit_.try_emplace(path);
    if (fresh) known->second = find_unit(path);
    return known->second;
  }

  /// The set of a module's own ops: of all ops of a whole one, of what reaches a divided one.
  std::uint32_t node(std::string_view path) {
    const auto fresh = static_cast<std::uint32_t>(graph_.num_ops() + node_.size());
    return node_.try_emplace(path, fresh).first->second;  // a whole module may have no own ops
  }
  static std::uint32_t node(OpId v) { return static_cast<std::uint32_t>(index(v)); }

  void decide() {
    unit_.clear();
    entered_.clear();
    for (const OpId v : graph_.ops())
      if (const auto path = unit(graph_.module(v))) node(*path);
    sets_ = boost::disjoint_sets_with_storage<>(graph_.num_ops() + node_.size());
    for (const OpId v : graph_.ops())
      if (graph_.op(v).phase == Phase::forward && !is_free(v)) look_at(v);
    for (const GroupId g : graph_.groups()) {
      std::optional<OpId> first;
      for (const OpId v : graph_.members(g)) {
        if (graph_.op(v).phase != Phase::forward) continue;
        if (!first) first = v;
        sets_.union_set(node(*first), node(v));
      }
    }
  }

  /// Inputs of the model and its loss are not in its `forward`.
  bool is_free(OpId v) const {
    return graph_.module(v).empty() && (graph_.kind(v) == "Input" || graph_.kind(v) == "Loss");
  }

  void look_at(OpId v) {
    const std::string_view path = graph_.module(v);
    if (const auto whole = unit(path)) return sets_.union_set(node(v), node(*whole));
    bool enters = graph_.op(v).persistent > Bytes{};
    for (const EdgeId e : graph_.in_edges(v)) {
      const OpId src = graph_.edge(e).src;
      if (graph_.tensor(graph_.edge(e).tensor).control || graph_.op(src).phase != Phase::forward)
        continue;
      const std::string_view from = graph_.module(src);
      if (!is_free(src) && (from == path || is_inside(from, path)))
        sets_.union_set(node(v), node(src));
      else
        enters = true;
    }
    if (!enters) return;
    entered_.insert(path);
    if (graph_.op(v).persistent > Bytes{}) holding_.insert(path);
    sets_.union_set(node(v), node(path));
  }

  /// Whether DivisionRules::stages makes divided modules whole.
  bool find_whole() {
    for (const std::string_view path : entered_) {
      if (path.empty()) continue;
      const auto joined = [&](const auto& unit) {
        return unit.second && is_inside(*unit.second, path) &&
               sets_.find_set(node(*unit.second)) == sets_.find_set(node(path));
      };
      if (holding_.contains(path) || std::ranges::any_of(unit_, joined)) whole_.insert(path);
    }
    return !whole_.empty();
  }

  void name_modules(WholeModules& result) {
    const auto add = [&](std::string_view path) {
      if (number_.try_emplace(path, static_cast<std::uint32_t>(result.names.size())).second)
        result.names.emplace_back(path);
    };
    for (const OpId v : graph_.ops())
      if (const auto path = unit(graph_.module(v))) add(*path);
    result.num_whole = result.names.size();
    for (const std::string_view path : entered_) add(path);
    if (result.names.empty()) add("");
  }

  void join(WholeModules& result) {
    std::vector<std::uint32_t> members(graph_.num_ops() + node_.size(), 0);
    first_.assign(members.size(), none);
    for (std::uint32_t u = 0; u < result.names.size(); ++u) {
      const auto set = sets_.find_set(node(result.names[u]));
      first_[set] = std::min(first_[set], u);
      ++members[set];
      result.together.push_back(first_[set]);
    }
    result.join.assign(result.names.size(), no_op);
    for (const OpId v : graph_.ops()) {
      if (graph_.op(v).phase != Phase::forward || is_free(v) || unit(graph_.module(v))) continue;
      const auto set = sets_.find_set(node(v));
      if (members[set] < 2 || graph_.in_edges(v).size() < 2) continue;
      OpId& known = result.join[first_[set]];
      if (known == no_op) known = v;
    }
    // Ops that read constants only run where a reader of theirs does.
    for (const OpId v : graph_.ops())
      for (const EdgeId e : graph_.in_edges(v)) {
        std::uint32_t& known = first_[sets_.find_set(node(graph_.edge(e).src))];
        if (known == none) known = first_[sets_.find_set(node(v))];
      }
  }

  std::uint32_t module_of(OpId v, const WholeModules& result) {
    if (const auto whole = unit(graph_.module(v))) return number_.at(*whole);
    if (is_free(v)) {
      if (graph_.kind(v) == "Loss") return none;
      const auto root = number_.find("");
      return root == number_.end() ? 0 : result.together[root->second];
    }
    const std::uint32_t first = first_[sets_.find_set(node(v))];
    return first == none ? 0 : first;
  }

  /// For an op of another phase or a loss.
  std::uint32_t follow(OpId v, const IdVector<OpId, std::uint32_t>& of) {
    if (const auto whole = unit(graph_.module(v))) return number_.at(*whole);
    const OpId forward = graph_.op(v).forward;
    if (forward != no_op && of[forward] != none) return of[forward];
    if (graph_.op(v).group != no_group)
      for (const OpId member : graph_.members(graph_.op(v).group))
        if (of[member] != none) return of[member];
    std::uint32_t result = 0;
    Bytes largest{-1};
    for (const EdgeId e : graph_.in_edges(v)) {
      const Tensor& tensor = graph_.tensor(graph_.edge(e).tensor);
      if (tensor.copied() > largest && of[tensor.producer] != none) result = of[tensor.producer];
      largest = std::max(largest, tensor.copied());
    }
    return result;
  }

  const OpGraph& graph_;
  const DivisionRules& rules_;
  std::set<std::string, std::less<>> called_;
  std::map<std::string_view, std::uint32_t> node_;  // in sets_, after the ops
  std::map<std::string_view, std::optional<std::string_view>> unit_;
  std::set<std::string_view> whole_, holding_;
  std::set<std::string_view> entered_;  // divided modules that need a device
  boost::disjoint_sets_with_storage<> sets_;
  std::map<std::string_view, std::uint32_t> number_;  // of a module in WholeModules
  std::vector<std::uint32_t> first_;                  // [sets_] the set's first module
};

}  // namespace

WholeModules whole_modules(const OpGraph& graph, const DivisionRules& rules) {
  return Division(graph, rules).run();
}

std::vector<DeviceId> devices_of_modules(const Problem& problem, const WholeModules& modules,
                                         const Placement& placement) {
  const std::size_t devices = problem.cluster.num_devices();
  std::vector<Duration> time(modules.names.size() * devices);
  for (const OpId v : problem.graph.ops()) {
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
  IdVector<OpId, GroupId> group;
  for (const OpId v : graph.ops())
    group.push_back(static_cast<GroupId>(modules.together[modules.of[v]] + 1));
  return graph.with_groups(group, modules.names);
}

Placement place_on_modules(const OpGraph& graph, const WholeModules& modules,
                           const std::vector<DeviceId>& device) {
  Placement placement;
  for (const OpId v : graph.ops()) placement.device.push_back(device[modules.of[v]]);
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
  for (std::size_t u = 0; u < modules.names.size(); ++u) {
    std::string_view path = modules.names[u];
    for (std::string_view outer = path; !outer.empty() && only.at(outer_of(outer));) {
      outer = outer_of(outer);
      if (outer.empty() || modules.called.contains(outer)) path = outer;
    }
    if (!listed.insert(path).second) continue;
    // Frameworks put the model's inputs on the device of the first key.
    map.emplace(path.empty() ? map.begin() : map.end(), path, device[u]);
  }
  return map;
}

std::vector<PipelineCuts> cut_line(const Problem& problem, const WholeModules& modules,
                                   const IdVector<DeviceId, Bytes>& limit) {
  const std::vector<DeviceClass> classes = device_classes(problem);
  LineCosts costs(modules.num_whole, classes.size());
  // Ops of the divided modules are with the first whole module that shares their device.
  const auto block = [&](std::uint32_t m) { return m < modules.num_whole ? m : 0; };
  for (const OpId v : problem.graph.ops()) costs.add(problem, classes, v, block(modules.of[v]));
  costs.sum_up();
  std::vector<PipelineCuts> result;
  for (const LineCuts& cuts : cut_stretches(costs, classes, limit, LineGoal::longest)) {
    PipelineCuts& pipeline = result.emplace_back();
    pipeline.longest = Duration(cuts.value);
    for (std::uint32_t m = 0; m < modules.names.size(); ++m) {
      pipeline.of_module.push_back(cuts.of_block[block(m)]);
      if (m >= modules.num_whole || (m > 0 && cuts.of_block[m] == cuts.of_block[m - 1])) continue;
      pipeline.first.push_back(m);
      pipeline.device.push_back(cuts.of_block[m]);
    }
  }
  return result;
}

}  // namespace baechi
