#include <deque>

#include "placers/interface/colocation.h"
#include "placers/interface/placer.h"
#include "placers/whole_modules.h"

namespace baechi {
namespace {

/// The modules of a model as a tree, with the bytes of their weights. A graph without modules has
/// its colocation units instead, side by side.
class WeightTree {
 public:
  using Item = std::uint32_t;
  static constexpr Item root = 0;

  WeightTree(const OpGraph& graph, const std::vector<std::string>& no_split) : graph_(graph) {
    add("", true);
    if (graph.has_modules())
      add_modules(no_split);
    else
      add_units();
    tie();
  }

  Bytes size(Item i) const { return items_[i].bytes; }
  const std::string& path(Item i) const { return items_[i].path; }
  const std::vector<Item>& children(Item i) const { return items_[i].children; }
  /// The items without children inside `i`, or `i` itself.
  void leaves(Item i, std::vector<Item>& found) const {
    if (items_[i].children.empty()) found.push_back(i);
    for (const Item c : items_[i].children) leaves(c, found);
  }
  /// Leaves that share a colocation group with the leaf `i`, such as by tied weights.
  const std::set<Item>& ties(Item i) const { return items_[i].ties; }
  bool is_inside(Item i, Item outer) const {
    while (i != outer && i != root) i = items_[i].outer;
    return i == outer;
  }
  /// The largest leaf that the framework would not split: one with inner modules, else any.
  Bytes largest_block() const { return largest_ > Bytes{} ? largest_ : largest_leaf(); }
  /// The mean size of the innermost modules with weights.
  Bytes mean_module() const {
    return {size(root).count / std::max<std::int64_t>(static_cast<std::int64_t>(innermost_), 1)};
  }
  Placement placement(const std::vector<DeviceId>& device) const {
    Placement result;
    IdVector<GroupId, std::optional<DeviceId>> home(graph_.num_groups() + 1);
    for (const OpId v : graph_.ops()) {
      DeviceId d = device[leaf_of_[v]];
      const GroupId g = graph_.op(v).group;
      if (g != no_group) d = home[g] ? *home[g] : *(home[g] = d);
      result.device.push_back(d);
    }
    return result;
  }

 private:
  struct Entry {
    std::string path;
    Item outer = root;
    Bytes bytes{};
    std::vector<Item> children{};
    std::set<Item> ties{};
  };

  Item add(const std::string& path, bool is_root = false) {
    const auto item = static_cast<Item>(items_.size());
    items_.push_back({path});
    if (!is_root) {
      items_[item].outer = outer_of(path);
      items_[items_[item].outer].children.push_back(item);
    }
    return item;
  }
  Item outer_of(const std::string& path) {
    const std::size_t end = path.rfind('.');
    if (end == std::string::npos) return root;
    const std::string outer = path.substr(0, end);
    if (const auto known = inner_.find(outer); known != inner_.end()) return known->second;
    const Item made = add(outer);
    inner_.emplace(outer, made);
    return made;
  }
  void weigh(Item i, Bytes bytes) {
    for (; i != root; i = items_[i].outer) items_[i].bytes += bytes;
    items_[root].bytes += bytes;
  }

  void add_modules(const std::vector<std::string>& no_split) {
    const WholeModules modules = whole_modules(graph_, {.no_split = no_split, .stages = true});
    std::vector<Item> item;
    for (std::size_t m = 0; m < modules.names.size(); ++m)
      item.push_back(add(m < modules.num_whole      ? modules.names[m]
                         : modules.names[m].empty() ? "*"
                                                    : modules.names[m] + ".*"));
    std::map<std::string_view, Bytes> weights;  // of innermost modules
    for (const OpId v : graph_.ops()) {
      leaf_of_.push_back(item[modules.of[v]]);
      if (graph_.op(v).phase != Phase::forward || graph_.op(v).persistent == Bytes{}) continue;
      weigh(leaf_of_[v], graph_.op(v).persistent);
      weights[graph_.module(v)] += graph_.op(v).persistent;
      const std::string& whole = modules.names[modules.of[v]];
      if (graph_.module(v).size() > whole.size() && modules.of[v] < modules.num_whole)
        blocks_.insert(leaf_of_[v]);
    }
    innermost_ = weights.size();
    for (const Item b : blocks_) largest_ = std::max(largest_, size(b));
  }

  void add_units() {
    const ColocationUnits units(graph_);
    std::vector<Item> item;
    for (const UnitId u : units.units()) item.push_back(add(units.label(u, graph_)));
    leaf_of_.assign(graph_.num_ops(), root);
    for (const OpId v : graph_.ops()) {
      leaf_of_[v] = item[index(units.of(v))];
      if (graph_.op(v).phase == Phase::forward) weigh(leaf_of_[v], graph_.op(v).persistent);
    }
    innermost_ = units.size();
  }

  void tie() {
    for (const GroupId g : graph_.groups()) {
      std::set<Item> together;
      for (const OpId v : graph_.members(g)) together.insert(leaf_of_[v]);
      for (const Item a : together)
        for (const Item b : together)
          if (a != b) items_[a].ties.insert(b);
    }
  }

  Bytes largest_leaf() const {
    Bytes largest;
    for (const Entry& e : items_)
      if (e.children.empty()) largest = std::max(largest, e.bytes);
    return largest;
  }

  const OpGraph& graph_;
  std::vector<Entry> items_;
  std::map<std::string, Item> inner_;
  IdVector<OpId, Item> leaf_of_;
  std::set<Item> blocks_;
  Bytes largest_{};
  std::size_t innermost_ = 0;
};

/// Fills one device after another with modules, and never returns to a device.
class Filling {
 public:
  using Item = WeightTree::Item;

  Filling(const WeightTree& tree, const Cluster& cluster, const IdVector<DeviceId, Bytes>& memory)
      : tree_(tree), memory_(memory), device_(1, DeviceId{0}) {
    const auto rank = [&](DeviceId d) {
      return cluster.device(d).kind == "disk" ? 2 : cluster.device(d).is_cpu() ? 1 : 0;
    };
    std::set<std::string> seen;  // kinds that only store: of their devices, ways to one memory
    for (const int wanted : {0, 1, 2})
      for (const DeviceId d : cluster.devices()) {
        const Device& device = cluster.device(d);
        if (rank(d) != wanted || (!device.computes() && !seen.insert(device.kind).second)) continue;
        // Room for the largest layer is kept on the first GPU and on hosts.
        keeps_room_.push_back(wanted == 1 || order_.empty());
        order_.push_back(d);
      }
    for (const Item c : tree.children(WeightTree::root)) todo_.push_back(c);
  }

  std::vector<DeviceId> run() {
    find_largest();
    while (!todo_.empty()) {
      const Item item = todo_.front();
      todo_.pop_front();
      if (largest_ > Bytes{}) {
        std::erase_if(largest_layers_, [&](Item i) { return tree_.is_inside(i, item); });
        if (largest_layers_.empty()) find_largest();
      }
      take(item);
    }
    return device_;
  }

 private:
  void take(Item item) {
    if (at_ == order_.size())
      throw InfeasibleError(fmt::format(
          "weights alone do not fit, in this order: '{}' and what follows are left over",
          tree_.path(item)));
    const Bytes kept = keeps_room_[at_] ? largest_ : Bytes{};
    const Bytes limit = memory_[order_[at_]] - kept, size = tree_.size(item);
    const std::vector<std::size_t> tied = tied_to(item);
    Bytes with_ties = size;
    for (const std::size_t i : tied) with_ties += tree_.size(todo_[i]);
    if (used_ + with_ties <= limit) return place(item, tied, with_ties);
    if (used_ + size <= limit)
      for (const std::size_t i : tied)
        if (!tree_.children(todo_[i]).empty()) {
          split(i);
          return retry(item);
        }
    if (used_ + size >= limit && !tree_.children(item).empty()) {
      todo_.push_front(item);
      return split(0);
    }
    ++at_;
    used_ = {};
    todo_.push_front(item);
  }

  void place(Item item, const std::vector<std::size_t>& tied, Bytes size) {
    used_ += size;
    assign(item);
    for (auto i = tied.rbegin(); i != tied.rend(); ++i) {
      assign(todo_[*i]);
      todo_.erase(todo_.begin() + static_cast<std::ptrdiff_t>(*i));
    }
  }
  void assign(Item item) {
    std::vector<Item> leaves;
    tree_.leaves(item, leaves);
    for (const Item leaf : leaves) {
      if (leaf >= device_.size()) device_.resize(leaf + 1, DeviceId{0});
      device_[leaf] = order_[at_];
    }
  }
  /// Replaces the item at `position` by its children.
  void split(std::size_t position) {
    const auto at = todo_.begin() + static_cast<std::ptrdiff_t>(position);
    const std::vector<Item> children = tree_.children(*at);
    todo_.insert(todo_.erase(at), children.begin(), children.end());
    find_largest();
  }
  void retry(Item item) {
    todo_.push_front(item);
    find_largest();
  }
  /// Positions in todo_, ascending, of what holds the other ends of the item's ties.
  std::vector<std::size_t> tied_to(Item item) const {
    std::vector<Item> leaves;
    tree_.leaves(item, leaves);
    std::set<std::size_t> found;
    for (const Item leaf : leaves)
      for (const Item other : tree_.ties(leaf))
        for (std::size_t i = 0; i < todo_.size(); ++i)
          if (tree_.is_inside(other, todo_[i])) found.insert(i);
    return {found.begin(), found.end()};
  }
  void find_largest() {
    largest_ = {};
    largest_layers_.clear();
    std::vector<Item> leaves;
    for (const Item item : todo_) tree_.leaves(item, leaves);
    for (const Item i : leaves) largest_ = std::max(largest_, tree_.size(i));
    for (const Item i : leaves)
      if (tree_.size(i) == largest_) largest_layers_.push_back(i);
  }

  const WeightTree& tree_;
  const IdVector<DeviceId, Bytes>& memory_;
  std::vector<DeviceId> order_;
  std::vector<bool> keeps_room_;  // [order_]
  std::deque<Item> todo_;
  std::size_t at_ = 0;  // into order_
  Bytes used_{};        // on that device
  Bytes largest_{};     // of the layers left when it was last looked up
  std::vector<Item> largest_layers_;
  std::vector<DeviceId> device_;  // [items]
};

std::vector<std::string> read_no_split(Options& o) {
  std::vector<std::string> names;
  if (const Options::Value* given =
          o.raw("no_split",
                "module, or list of modules, that stays whole; also patterns: '*.layers.*'")) {
    if (given->children.empty()) names.push_back(given->text);
    for (const auto& [key, value] : given->children) names.push_back(value.text);
  }
  return names;
}

/// accelerate's infer_auto_device_map, after get_balanced_memory if `balanced`: memory is that of
/// weights. Source: Hugging Face accelerate, utils/modeling.py. Differs: modules are in the order
/// of their first ops, there is a disk only if the cluster has one, and of the modules that are
/// never split all count as different classes.
class Fill final : public Placer {
 public:
  Fill(Options& o, bool balanced) : balanced_(balanced), no_split_(read_no_split(o)) {
    if (balanced)
      low_zero_ = o.get("low_zero", false, "leave the first device as empty as it goes");
  }

  Placement place(const Problem& p, std::uint64_t /*seed*/) const override {
    const WeightTree tree(p.graph, no_split_);
    IdVector<DeviceId, Bytes> memory = memory_limits(p);
    if (balanced_) balance(tree, p.cluster, memory);
    return tree.placement(Filling(tree, p.cluster, memory).run());
  }

 private:
  void balance(const WeightTree& tree, const Cluster& cluster,
               IdVector<DeviceId, Bytes>& memory) const {
    std::vector<DeviceId> gpus;
    for (const DeviceId d : cluster.devices())
      if (cluster.device(d).computes() && !cluster.device(d).is_cpu() && memory[d] > Bytes{})
        gpus.push_back(d);
    if (gpus.size() < 2) return;
    const std::int64_t all = tree.size(WeightTree::root).count;
    const auto n = static_cast<std::int64_t>(gpus.size()) - (low_zero_ ? 1 : 0);
    const Bytes most = std::max(tree.largest_block(), tree.mean_module());
    const Bytes share{all / n + most.count + most.count / 4};
    Bytes others;
    for (std::size_t i = low_zero_ ? 1 : 0; i + 1 < gpus.size(); ++i)
      memory[gpus[i]] = std::min(memory[gpus[i]], share);
    for (std::size_t i = 1; i < gpus.size(); ++i)
      others += std::min(memory[gpus[i]], Bytes{all});  // not beyond 62 bits
    if (low_zero_)
      memory[gpus[0]] = std::min(memory[gpus[0]], std::max(Bytes{}, Bytes{all} - others));
  }

  bool balanced_, low_zero_ = false;
  std::vector<std::string> no_split_;
};

}  // namespace

std::unique_ptr<Placer> make_fill(Options& o) { return std::make_unique<Fill>(o, false); }
std::unique_ptr<Placer> make_balanced(Options& o) { return std::make_unique<Fill>(o, true); }

}  // namespace baechi
