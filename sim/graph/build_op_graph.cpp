#include <boost/pending/disjoint_sets.hpp>
#include <numeric>

#include "sim/error.h"
#include "sim/graph/analysis.h"

namespace baechi {
namespace {

/// Counting sort: begin[k] .. begin[k+1] are the items with key k, once sorted by key. [keys + 1]
std::vector<std::uint32_t> run_starts(std::size_t keys, const auto& items, auto key_of) {
  std::vector<std::uint32_t> begin(keys + 1, 0);
  for (const auto& item : items) ++begin[index(key_of(item)) + 1];
  for (std::size_t k = 0; k < keys; ++k) begin[k + 1] += begin[k];
  return begin;
}

/// The indices of the items sorted by key, stably, in O(items). `next`: run_starts() of the same.
std::vector<std::uint32_t> stable_order(std::vector<std::uint32_t> next, const auto& items,
                                        auto key_of) {
  std::vector<std::uint32_t> order(items.size());
  std::uint32_t i = 0;
  for (const auto& item : items) order[next[index(key_of(item))]++] = i++;
  return order;
}

/// A min-priority queue of distinct numbers below `size`: a hierarchical bitmap, in which a bit of
/// a level means a nonzero word of the level below. Takes about half the time of a heap.
class BitmapQueue {
 public:
  explicit BitmapQueue(std::size_t size) {
    do {
      size = std::max<std::size_t>(1, (size + 63) / 64);
      levels_.emplace_back(size, 0);
    } while (size > 1);
  }
  bool empty() const { return levels_.back()[0] == 0; }
  void insert(std::size_t number) {
    for (auto& level : levels_) {
      std::uint64_t& word = level[number / 64];
      const bool known_above = word != 0;
      word |= std::uint64_t{1} << (number % 64);
      if (known_above) return;
      number /= 64;
    }
  }
  std::size_t take() {
    std::size_t least = 0;
    for (const auto& level : std::views::reverse(levels_))
      least = 64 * least + static_cast<std::size_t>(std::countr_zero(level[least]));
    std::size_t at = least;
    for (auto& level : levels_) {
      at /= 64;
      level[at] &= level[at] - 1;
      if (level[at] != 0) break;
    }
    return least;
  }

 private:
  std::vector<std::vector<std::uint64_t>> levels_;
};

}  // namespace

IdVector<OpId, OpId> OpGraphBuilder::first_members() const {
  IdVector<OpId, OpId> first;
  if (collectives_.empty()) return first;
  first.reserve(ops_.size());
  for (const OpId v : ops_.ids()) first.push_back(v);
  for (const MembersOf& m : collectives_)
    for (const OpId v : m.members) first[v] = *std::ranges::min_element(m.members);
  return first;
}

IdVector<OpId, OpId> OpGraphBuilder::topological_ids() const {
  const std::size_t n = ops_.size();
  IdVector<OpId, OpId> new_id;
  new_id.reserve(n);
  // A collective is one node, named by its member that was added first.
  const IdVector<OpId, OpId> first = first_members();
  const auto node = [&](OpId v) { return first.empty() ? v : first[v]; };
  const auto in_a_row = [](const MembersOf& m) {  // consecutive ascending ids
    return std::ranges::adjacent_find(m.members, [](OpId a, OpId b) {
             return index(b) != index(a) + 1;
           }) == m.members.end();
  };
  if (std::ranges::all_of(collectives_, in_a_row) &&
      std::ranges::all_of(edges_, [&](const Edge& e) { return node(e.src) < node(e.dst); })) {
    for (const OpId v : ops_.ids()) new_id.push_back(v);
    return new_id;
  }
  std::vector<Edge> between_nodes;
  between_nodes.reserve(first.empty() ? 0 : edges_.size());
  if (!first.empty())
    for (const Edge& e : edges_) between_nodes.push_back({node(e.src), node(e.dst), e.tensor});
  const std::vector<Edge>& edges = first.empty() ? edges_ : between_nodes;
  IdVector<OpId, const MembersOf*> members_of(first.size(), nullptr);
  for (const MembersOf& m : collectives_) members_of[node(m.members.front())] = &m;

  new_id.assign(n, no_op);
  const auto begin = run_starts(n, edges, [](const Edge& e) { return e.src; });
  const auto by_src = stable_order(begin, edges, [](const Edge& e) { return e.src; });
  std::vector<std::uint32_t> unmet(n, 0);
  for (const Edge& e : edges) ++unmet[index(e.dst)];
  BitmapQueue ready(n);
  for (const OpId v : ops_.ids())
    if (unmet[index(v)] == 0 && node(v) == v) ready.insert(index(v));
  std::uint32_t numbered = 0;
  while (!ready.empty()) {
    const auto v = static_cast<OpId>(ready.take());
    if (members_of.empty() || members_of[v] == nullptr) {
      new_id[v] = static_cast<OpId>(numbered++);
    } else {
      for (const OpId member : members_of[v]->members)
        new_id[member] = static_cast<OpId>(numbered++);
    }
    for (auto i = begin[index(v)]; i < begin[index(v) + 1]; ++i) {
      const OpId reader = edges[by_src[i]].dst;
      if (--unmet[index(reader)] == 0) ready.insert(index(reader));
    }
  }
  if (numbered != n) refuse_cycle(edges);
  return new_id;
}

void OpGraphBuilder::refuse_cycle(const std::vector<Edge>& edges) const {
  constexpr std::size_t most_named = 20;
  const std::vector<OpId> cycle = find_cycle(ops_.size(), edges);
  std::vector<std::string_view> names;
  for (const OpId v : cycle | std::views::take(most_named)) names.push_back(name(v));
  const std::string more =
      cycle.size() > most_named ? fmt::format(" -> ({} more)", cycle.size() - most_named) : "";
  const std::string why = collectives_.empty()
                              ? ""
                              : " (the members of a collective start together and count as one op)";
  throw InputError(
      fmt::format("graph: a cycle: {}{} -> {}{}", fmt::join(names, " -> "), more, names[0], why));
}

void OpGraphBuilder::make_groups(OpGraph& g, const IdVector<OpId, OpId>& new_id) const {
  // Labels with a common op are merged; an op's group is then the set of any of its labels.
  std::vector<std::uint32_t> rank(labels_.size()), parent(labels_.size());
  boost::disjoint_sets sets(rank.data(), parent.data());
  for (std::uint32_t l = 0; l < labels_.size(); ++l) sets.make_set(l);
  constexpr std::uint32_t none = ~std::uint32_t{0};
  IdVector<OpId, std::uint32_t> label(ops_.size(), none);  // by new id
  for (const Label& use : label_uses_) {
    std::uint32_t& known = label[new_id[use.op]];
    if (known == none)
      known = use.label;
    else
      sets.union_set(known, use.label);
  }
  std::vector<std::uint32_t> least(labels_.size());  // label that names the set, at its root
  std::iota(least.begin(), least.end(), 0U);
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    return labels_[a].size() != labels_[b].size() ? labels_[a].size() < labels_[b].size()
                                                  : labels_[a] < labels_[b];
  };
  for (std::uint32_t l = 0; l < labels_.size(); ++l) {
    std::uint32_t& name = least[sets.find_set(l)];
    if (before(l, name)) name = l;
  }
  std::vector<std::string> names(labels_.size());
  for (std::uint32_t l = 0; l < labels_.size(); ++l) names[l] = labels_[least[l]];
  IdVector<OpId, GroupId> group(ops_.size(), no_group);
  for (const OpId v : label.ids())
    if (label[v] != none) group[v] = static_cast<GroupId>(sets.find_set(label[v]) + 1);
  g = std::move(g).with_groups(group, names);
}

namespace {

/// Lane "compute", then the others in the order of their first ops, so that a copy of a graph has
/// the same lanes whatever the order in which its ops were added.
std::vector<std::string> number_lanes(IdVector<OpId, Op>& ops,
                                      const std::vector<std::string>& lanes) {
  std::vector<std::string> names{lanes.front()};
  std::vector<LaneKind> number(lanes.size(), compute_lane);
  for (Op& op : ops) {
    LaneKind& now = number[index(op.lane)];
    if (op.lane != compute_lane && now == compute_lane) {
      now = static_cast<LaneKind>(names.size());
      names.push_back(lanes[index(op.lane)]);
    }
    op.lane = now;
  }
  return names;
}

}  // namespace

OpGraph OpGraphBuilder::build(IdVector<OpId, OpId>* renumbered) && {
  check_names();
  name_slots_ = {};
  check_sums();
  check_collectives();
  const IdVector<OpId, OpId> new_id = topological_ids();
  const std::size_t n = ops_.size();
  OpGraph g;

  // Ops and names.
  g.ops_.reserve(n);
  IdVector<OpId, OpId> old_id(n);
  for (const OpId v : ops_.ids()) old_id[new_id[v]] = v;
  g.name_begin_.reserve(n + 1);
  g.name_text_.reserve(name_text_.size());
  for (const OpId old : old_id) {
    Op op = ops_[old];
    if (op.forward != no_op) op.forward = new_id[op.forward];
    g.ops_.push_back(op);
    g.name_text_ += name(old);
    g.name_begin_.push_back(g.name_text_.size());
  }
  if (!micro_batches_.empty()) {
    for (const OpId v : g.ops()) g.micro_batch_.push_back({v});
    for (const auto& [op, copy] : micro_batches_)
      g.micro_batch_[new_id[op]] = {new_id[copy.first], copy.number};
  }
  if (!caches_.empty()) g.cache_ = IdVector<OpId, Bytes>(n);
  for (const auto& [op, bytes] : caches_) g.cache_[new_id[op]] = bytes;
  g.kinds_ = std::move(kinds_);
  if (!module_.empty()) {
    module_.resize(n, 0);
    for (const OpId old : old_id) g.module_.push_back(module_[index(old)]);
    g.modules_ = std::move(modules_);
  }
  g.lanes_ = number_lanes(g.ops_, lanes_);
  for (auto& [collective, members] : collectives_) {
    collective.first = new_id[members.front()];
    collective.members = static_cast<std::uint32_t>(members.size());
    if (collective.ranks == 0) collective.ranks = collective.members;
    g.collectives_.push_back(collective);
  }
  std::ranges::sort(g.collectives_, {}, &Collective::first);
  if (!label_uses_.empty()) make_groups(g, new_id);
  ops_ = {};  // frees memory
  name_text_ = {};
  name_begin_ = {};

  if (!kernels_.empty()) {
    const auto op = [&](const auto& kernel) { return new_id[kernel.first]; };
    g.kernels_begin_ = run_starts(n, kernels_, op);
    g.kernels_.reserve(kernels_.size());
    for (const std::uint32_t i : stable_order(g.kernels_begin_, kernels_, op))
      g.kernels_.push_back(kernels_[i].second);
  }

  // Tensors, by producer, the control tensor last.
  std::vector<TensorId> data_first;
  for (const bool control : {false, true}) {
    for (const TensorId t : tensors_.ids())
      if (tensors_[t].control == control) data_first.push_back(t);
  }
  const auto producer = [&](TensorId t) { return new_id[tensors_[t].producer]; };
  g.outputs_begin_ = run_starts(n, data_first, producer);
  IdVector<TensorId, TensorId> new_tensor(tensors_.size());
  g.tensors_.reserve(tensors_.size());
  for (const std::uint32_t i : stable_order(g.outputs_begin_, data_first, producer)) {
    const TensorId t = data_first[i];
    Tensor tensor = tensors_[t];
    tensor.producer = producer(t);
    new_tensor[t] = g.tensors_.push_back(tensor);
  }
  if (!transfers_.empty()) {
    g.transfers_.assign(tensors_.size(), not_given);
    for (const TensorId t : transfers_.ids()) g.transfers_[new_tensor[t]] = transfers_[t];
  }
  tensors_ = {};
  data_first = {};

  // Edges, by tensor (and so by producer), without repetitions.
  for (Edge& e : edges_) e = {new_id[e.src], new_id[e.dst], new_tensor[e.tensor]};
  const auto tensor_of = [](const Edge& e) { return e.tensor; };
  const std::vector<std::uint32_t> by_tensor =
      stable_order(run_starts(g.num_tensors(), edges_, tensor_of), edges_, tensor_of);
  IdVector<OpId, TensorId> last_read(n, no_tensor);
  g.edges_.reserve(edges_.size());
  g.added_.reserve(edges_.size());
  for (const std::uint32_t i : by_tensor) {
    const Edge& e = edges_[i];
    if (last_read[e.dst] == e.tensor) continue;
    last_read[e.dst] = e.tensor;
    g.edges_.push_back(e);
    g.added_.push_back(i);
  }
  if (std::ranges::is_sorted(g.added_)) g.added_ = {};
  edges_ = {};
  g.readers_begin_ = run_starts(g.num_tensors(), g.edges_, tensor_of);
  g.out_begin_ = run_starts(n, g.edges_, [](const Edge& e) { return e.src; });
  const auto dst = [](const Edge& e) { return e.dst; };
  g.in_begin_ = run_starts(n, g.edges_, dst);
  g.in_.reserve(g.num_edges());
  g.in_src_.reserve(g.num_edges());
  for (const std::uint32_t e : stable_order(g.in_begin_, g.edges_, dst)) {
    g.in_.push_back(static_cast<EdgeId>(e));
    g.in_src_.push_back(g.edges_[static_cast<EdgeId>(e)].src);
  }

  // Times per device type: an op without any set_compute() has its one time on all types.
  g.device_kinds_ = std::move(device_kinds_);
  if (!g.device_kinds_.empty()) {
    for (std::size_t k = 1; k < g.device_kinds_.size(); ++k) {
      g.compute_.emplace_back(n);
      for (const OpId v : g.ops()) g.compute_.back()[v] = g.ops_[v].compute;
    }
    const auto column = [&](OpId v, std::size_t k) -> Duration& {
      return k == 0 ? g.ops_[v].compute : g.compute_[k - 1][v];
    };
    for (const KindTime& kt : kind_times_) {
      for (std::size_t k = 0; k < g.device_kinds_.size(); ++k) column(new_id[kt.op], k) = not_given;
    }
    for (const KindTime& kt : kind_times_) column(new_id[kt.op], kt.kind) = kt.time;
  }
  if (renumbered != nullptr) *renumbered = new_id;
  return g;
}

}  // namespace baechi
