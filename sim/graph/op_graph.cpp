#include "sim/graph/op_graph.h"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <boost/pending/disjoint_sets.hpp>
#include <functional>
#include <limits>
#include <numeric>
#include <queue>
#include <ranges>

#include "sim/error.h"
#include "sim/graph/cycle.h"

namespace baechi {
namespace {

constexpr TensorId no_tensor{~std::uint32_t{0}};
constexpr Duration not_given{-1};
constexpr std::uint64_t upper_half = ~std::uint64_t{0} << 32U;

OpId op_in(std::uint64_t slot) {
  return static_cast<OpId>(static_cast<std::uint32_t>(slot) - 1);
}

/// A large table that is read all over misses less on large pages. Where there are none, nothing
/// is lost.
void ask_for_huge_pages(void* table, std::size_t bytes) {
  constexpr std::size_t huge = std::size_t{1} << 21U;
  const auto begin = reinterpret_cast<std::uintptr_t>(table);
  const std::uintptr_t first = (begin + huge - 1) / huge * huge;
  const std::uintptr_t last = (begin + bytes) / huge * huge;
  if (first < last)
    madvise(static_cast<char*>(table) + (first - begin), last - first, MADV_HUGEPAGE);
}

/// begin[k] .. begin[k+1] is the run of items whose key is k, once they are sorted by key.
std::vector<std::uint32_t> run_starts(std::size_t keys, const auto& items, auto key_of) {
  std::vector<std::uint32_t> begin(keys + 1, 0);
  for (const auto& item : items) ++begin[index(key_of(item)) + 1];
  for (std::size_t k = 0; k < keys; ++k) begin[k + 1] += begin[k];
  return begin;
}

/// Where each item goes when sorted by key, equal keys in their order. O(items + keys).
std::vector<std::uint32_t> stable_order(std::size_t keys, const auto& items, auto key_of) {
  std::vector<std::uint32_t> next = run_starts(keys, items, key_of);
  std::vector<std::uint32_t> order(items.size());
  std::uint32_t i = 0;
  for (const auto& item : items) order[next[index(key_of(item))]++] = i++;
  return order;
}

std::uint32_t intern(std::string_view text, std::vector<std::string>& texts,
                     std::unordered_map<std::string, std::uint32_t>& ids) {
  const auto [it, fresh] =
      ids.try_emplace(std::string(text), static_cast<std::uint32_t>(texts.size()));
  if (fresh) texts.emplace_back(text);
  return it->second;
}

}  // namespace

std::optional<OpId> OpGraph::find(std::string_view wanted) const {
  for (const OpId v : ops()) {
    if (name(v) == wanted) return v;
  }
  return std::nullopt;
}

OpWork OpGraph::work(OpId v) const {
  OpWork sum;
  for (const OpWork& kernel : kernels(v)) {
    sum.flops += kernel.flops;
    sum.traffic += kernel.traffic;
  }
  if (!kernels(v).empty()) sum.precision = kernels(v).front().precision;
  return sum;
}

CollectiveId OpGraph::collective_of(OpId v) const {
  const auto after = std::ranges::upper_bound(collectives_, v, {}, &Collective::first);
  if (after == collectives_.begin()) return no_collective;
  const auto c = static_cast<CollectiveId>(after - collectives_.begin() - 1);
  const Collective& found = collectives_[c];
  return index(v) < index(found.first) + found.members ? c : no_collective;
}

std::optional<Duration> OpGraph::compute(OpId v, std::size_t kind) const {
  if (kind == 0) {
    if (ops_[v].compute < Duration::zero()) return std::nullopt;
    return ops_[v].compute;
  }
  const Duration time = compute_[kind - 1][v];
  return time < Duration::zero() ? std::nullopt : std::optional(time);
}

OpGraph OpGraph::with_times(std::string_view kind, const IdVector<OpId, Duration>& compute) const {
  BAECHI_CHECK(compute.size() == num_ops(), "one time per op");
  OpGraph g = *this;
  const auto known = std::ranges::find(device_kinds_, kind);
  const auto k = static_cast<std::size_t>(known - device_kinds_.begin());
  if (known == device_kinds_.end()) {
    g.device_kinds_.emplace_back(kind);
    if (k > 0) g.compute_.push_back(compute);
  } else if (k > 0) {
    g.compute_[k - 1] = compute;
  }
  if (k == 0) {
    for (const OpId v : ops()) g.ops_[v].compute = compute[v];
  }
  return g;
}

OpGraph OpGraph::with_groups(const IdVector<OpId, GroupId>& group,
                             std::span<const std::string> names) const {
  BAECHI_CHECK(group.size() == num_ops(), "one group per op");
  OpGraph g = *this;
  g.set_groups(group, names);
  return g;
}

OpGraph OpGraph::without_groups() const {
  return with_groups(IdVector<OpId, GroupId>(num_ops(), no_group), {});
}

void OpGraph::set_groups(const IdVector<OpId, GroupId>& group, std::span<const std::string> names) {
  group_names_.clear();
  members_.clear();
  std::vector<GroupId> number(names.size() + 1, no_group);
  for (const OpId v : ops()) {
    GroupId& known = number[index(group[v])];
    if (group[v] != no_group && known == no_group) {
      group_names_.push_back(names[index(group[v]) - 1]);
      known = static_cast<GroupId>(group_names_.size());
    }
    ops_[v].group = known;
    if (known != no_group) members_.push_back(v);
  }
  const auto key = [&](OpId v) { return static_cast<std::uint32_t>(ops_[v].group) - 1U; };
  std::ranges::stable_sort(members_, {}, key);
  members_begin_.assign(group_names_.size() + 1, 0);
  for (const OpId v : members_) ++members_begin_[key(v) + 1];
  std::partial_sum(members_begin_.begin(), members_begin_.end(), members_begin_.begin());
}

OpGraph OpGraph::with_free_controls() const {
  OpGraph g = *this;
  g.free_controls_ = true;
  for (Tensor& t : g.tensors_)
    if (t.control) t.size = Bytes{};
  if (g.transfers_.empty()) g.transfers_.assign(num_tensors(), not_given);
  for (const TensorId t : tensors())
    if (tensors_[t].control) g.transfers_[t] = Duration::zero();
  return g;
}

OpGraph OpGraph::with_transfers(IdVector<TensorId, Duration> transfer) const {
  BAECHI_CHECK(transfer.size() == num_tensors(), "one time per tensor");
  OpGraph g = *this;
  g.transfers_ = std::move(transfer);
  return g;
}

OpId OpGraphBuilder::add_op(const OpSpec& op) {
  BAECHI_CHECK(ops_.size() < index(no_op), "more than 2^32 - 1 ops");
  name_text_ += op.name;
  name_begin_.push_back(name_text_.size());
  const OpId v = ops_.push_back({.compute = op.compute,
                                 .persistent = op.persistent,
                                 .temporary = op.temporary,
                                 .kind = intern(op.kind, kinds_, kind_ids_),
                                 .phase = op.phase,
                                 .lane = intern_lane(op.lane)});
  if (!op.module.empty()) set_module(v, op.module);
  if (2 * ops_.size() > name_slots_.size()) {  // at most half full
    const std::size_t size = std::bit_ceil(std::max<std::size_t>(16, 2 * ops_.size()));
    name_slots_ = {};
    name_slots_.reserve(size);
    ask_for_huge_pages(name_slots_.data(), size * sizeof(name_slots_[0]));
    name_slots_.assign(size, 0);
    repeated_.clear();
    for (const OpId u : ops_.ids()) index_name(u);
  } else {
    index_name(v);
  }
  return v;
}

void OpGraphBuilder::index_name(OpId v) {
  const std::uint64_t hash = std::hash<std::string_view>{}(name(v));
  const std::size_t mask = name_slots_.size() - 1;
  for (std::size_t i = hash & mask;; i = (i + 1) & mask) {
    const std::uint64_t slot = name_slots_[i];
    if (slot == 0) {
      name_slots_[i] = (hash & upper_half) | (index(v) + 1);
      return;
    }
    if ((slot & upper_half) == (hash & upper_half) && name(op_in(slot)) == name(v)) {
      repeated_.push_back(v);
      return;
    }
  }
}

std::optional<OpId> OpGraphBuilder::find(std::string_view wanted) const {
  if (name_slots_.empty()) return std::nullopt;
  const std::uint64_t hash = std::hash<std::string_view>{}(wanted);
  const std::size_t mask = name_slots_.size() - 1;
  for (std::size_t i = hash & mask; name_slots_[i] != 0; i = (i + 1) & mask) {
    const std::uint64_t slot = name_slots_[i];
    if ((slot & upper_half) == (hash & upper_half) && name(op_in(slot)) == wanted)
      return op_in(slot);
  }
  return std::nullopt;
}

std::string_view OpGraphBuilder::name(OpId v) const {
  return std::string_view(name_text_)
      .substr(name_begin_[index(v)], name_begin_[index(v) + 1] - name_begin_[index(v)]);
}

TensorId OpGraphBuilder::add_tensor(OpId producer, Bytes size, bool reference) {
  return tensors_.push_back({.size = size, .producer = producer, .reference = reference});
}

void OpGraphBuilder::set_transfer(TensorId tensor, Duration time) {
  while (transfers_.size() < tensors_.size()) transfers_.push_back(not_given);
  transfers_[tensor] = time;
}

void OpGraphBuilder::add_edge(TensorId tensor, OpId reader) {
  BAECHI_CHECK(edges_.size() < std::numeric_limits<std::uint32_t>::max(), "more than 2^32 edges");
  edges_.push_back({tensors_[tensor].producer, reader, tensor});
}

void OpGraphBuilder::add_control(OpId before, OpId after) {
  if (control_of_.size() <= index(before)) control_of_.resize(index(before) + 1, no_tensor);
  TensorId& control = control_of_[index(before)];
  if (control == no_tensor)
    control = tensors_.push_back({.size = Bytes{4}, .producer = before, .control = true});
  add_edge(control, after);
}

void OpGraphBuilder::colocate(OpId op, std::string_view label) {
  label_uses_.push_back({op, intern(label, labels_, label_ids_)});
}

void OpGraphBuilder::set_forward(OpId backward, OpId forward) {
  ops_[backward].forward = forward;
}

void OpGraphBuilder::set_compute(OpId op, std::string_view kind, std::optional<Duration> time) {
  auto it = std::ranges::find(device_kinds_, kind);
  if (it == device_kinds_.end()) it = device_kinds_.emplace(it, kind);
  kind_times_.push_back(
      {op, static_cast<std::uint32_t>(it - device_kinds_.begin()), time.value_or(not_given)});
}

void OpGraphBuilder::add_kernel(OpId op, OpWork work) {
  if (!work.none()) kernels_.emplace_back(op, work);
}

void OpGraphBuilder::set_module(OpId v, std::string_view module) {
  if (modules_.empty()) intern("", modules_, module_ids_);
  module_.resize(index(v) + 1, 0);
  module_[index(v)] = intern(module, modules_, module_ids_);
}

LaneId OpGraphBuilder::intern_lane(std::string_view name) {
  if (name == lanes_.front()) return compute_lane;
  const auto known = std::ranges::find(lanes_, name);
  const auto lane = static_cast<LaneId>(known - lanes_.begin());
  if (known != lanes_.end()) return lane;
  if (lanes_.size() == most_lanes)
    throw InputError(fmt::format("graph: more than {} lanes: '{}'", most_lanes, name));
  lanes_.emplace_back(name);
  return lane;
}

void OpGraphBuilder::add_collective(const Collective& collective, std::span<const OpId> members) {
  BAECHI_CHECK(!members.empty(), "a collective without members");
  meetings_.push_back({collective, {members.begin(), members.end()}});
  for (const OpId v : members)
    if (ops_[v].lane == compute_lane) ops_[v].lane = intern_lane("comm");
}

void OpGraphBuilder::check_collectives() const {
  Mistakes mistakes;
  IdVector<OpId, bool> member(meetings_.empty() ? 0 : ops_.size());
  for (const auto& [collective, members] : meetings_) {
    const std::string_view kind = to_text(collective.kind);
    if (collective.ranks != 0 && collective.ranks < members.size())
      mistakes.add(fmt::format("graph: {} of '{}': {} ranks, but {} members", kind,
                               name(members.front()), collective.ranks, members.size()));
    if (collective.kind == CollectiveKind::send_recv && members.size() > 2)
      mistakes.add(fmt::format("graph: send_recv of '{}': {} members, not two",
                               name(members.front()), members.size()));
    for (const OpId v : members) {
      if (member[v])
        mistakes.add(fmt::format("graph: '{}' is a member of a collective twice", name(v)));
      if (ops_[v].compute != Duration::zero())
        mistakes.add(
            fmt::format("graph: '{}' is a member of a collective, whose time counts: it "
                        "has no time of its own",
                        name(v)));
      member[v] = true;
    }
  }
  mistakes.throw_if_any();
}

IdVector<OpId, OpId> OpGraphBuilder::first_members() const {
  IdVector<OpId, OpId> first;
  if (meetings_.empty()) return first;
  for (const OpId v : ops_.ids()) first.push_back(v);
  for (const Meeting& m : meetings_)
    for (const OpId v : m.members) first[v] = *std::ranges::min_element(m.members);
  return first;
}

void OpGraphBuilder::check_names() const {
  Mistakes mistakes;
  for (const OpId v : repeated_)
    mistakes.add(fmt::format("graph: two ops are named '{}'", name(v)));
  for (const OpId v : ops_.ids())
    if (const std::size_t zero = name(v).find('\0'); zero != std::string_view::npos)
      mistakes.add(fmt::format("graph: the name of op {}, '{}...', has a zero byte", index(v),
                               name(v).substr(0, zero)));
  mistakes.throw_if_any();
}

void OpGraphBuilder::check_sums() const {
  // So that sums of times and sizes along paths and on devices cannot overflow.
  constexpr std::int64_t most = std::int64_t{1} << 62U;
  const auto add = [](std::int64_t& sum, std::int64_t x) { sum = x > most - sum ? most : sum + x; };
  std::int64_t bytes = 0, time = 0;
  for (const Op& op : ops_) {
    add(bytes, op.persistent.count);
    add(bytes, op.temporary.count);
    add(time, op.compute.count());
  }
  for (const Tensor& t : tensors_) add(bytes, t.size.count);
  for (const KindTime& kt : kind_times_) add(time, kt.time.count());
  for (const Duration d : transfers_) add(time, d.count());
  std::int64_t flops = 0;
  for (const auto& [op, work] : kernels_) {
    add(bytes, work.traffic.count);
    add(flops, work.flops);
  }
  if (flops == most) throw InputError("graph: its flops add up to more than 2^62");
  if (bytes == most) throw InputError("graph: its sizes add up to more than 4 EiB");
  if (time == most) throw InputError("graph: its times add up to more than 146 years");
}

IdVector<OpId, OpId> OpGraphBuilder::topological_ids() const {
  const std::size_t n = ops_.size();
  IdVector<OpId, OpId> new_id;
  new_id.reserve(n);
  if (meetings_.empty() &&
      std::ranges::all_of(edges_, [](const Edge& e) { return e.src < e.dst; })) {
    for (const OpId v : ops_.ids()) new_id.push_back(v);
    return new_id;
  }
  // A collective is one node, its member that was added first.
  const IdVector<OpId, OpId> first = first_members();
  const auto node = [&](OpId v) { return first.empty() ? v : first[v]; };
  std::vector<Edge> between_nodes;
  if (!first.empty())
    for (const Edge& e : edges_) between_nodes.push_back({node(e.src), node(e.dst), e.tensor});
  const std::vector<Edge>& edges = first.empty() ? edges_ : between_nodes;
  IdVector<OpId, const Meeting*> meeting(first.size(), nullptr);
  for (const Meeting& m : meetings_) meeting[node(m.members.front())] = &m;

  new_id.assign(n, no_op);
  const auto begin = run_starts(n, edges, [](const Edge& e) { return e.src; });
  const auto by_src = stable_order(n, edges, [](const Edge& e) { return e.src; });
  std::vector<std::uint32_t> unmet(n, 0);
  for (const Edge& e : edges) ++unmet[index(e.dst)];
  std::priority_queue<OpId, std::vector<OpId>, std::greater<>> ready;
  for (const OpId v : ops_.ids())
    if (unmet[index(v)] == 0 && node(v) == v) ready.push(v);
  std::uint32_t numbered = 0;
  while (!ready.empty()) {
    const OpId v = ready.top();
    ready.pop();
    if (meeting.empty() || meeting[v] == nullptr) {
      new_id[v] = static_cast<OpId>(numbered++);
    } else {
      for (const OpId member : meeting[v]->members) new_id[member] = static_cast<OpId>(numbered++);
    }
    for (auto i = begin[index(v)]; i < begin[index(v) + 1]; ++i) {
      const OpId reader = edges[by_src[i]].dst;
      if (--unmet[index(reader)] == 0) ready.push(reader);
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
  const std::string why =
      meetings_.empty() ? "" : " (the members of a collective start together and count as one op)";
  throw InputError(
      fmt::format("graph: a cycle: {}{} -> {}{}", fmt::join(names, " -> "), more, names[0], why));
}

void OpGraphBuilder::make_groups(OpGraph& g, const IdVector<OpId, OpId>& new_id) const {
  // Labels that share an op are merged; an op's group is then the set of any of its labels.
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
  g.set_groups(group, names);
}

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
  g.kinds_ = std::move(kinds_);
  if (!module_.empty()) {
    module_.resize(n, 0);
    for (const OpId old : old_id) g.module_.push_back(module_[index(old)]);
    g.modules_ = std::move(modules_);
  }
  g.lanes_ = std::move(lanes_);
  for (auto& [collective, members] : meetings_) {
    collective.first = new_id[members.front()];
    collective.members = static_cast<std::uint32_t>(members.size());
    if (collective.ranks == 0) collective.ranks = collective.members;
    g.collectives_.push_back(collective);
  }
  std::ranges::sort(g.collectives_, {}, &Collective::first);
  make_groups(g, new_id);
  ops_ = {};  // what was copied makes room for what follows
  name_text_ = {};
  name_begin_ = {};

  if (!kernels_.empty()) {
    const auto op = [&](const auto& kernel) { return new_id[kernel.first]; };
    g.kernels_begin_ = run_starts(n, kernels_, op);
    g.kernels_.reserve(kernels_.size());
    for (const std::uint32_t i : stable_order(n, kernels_, op))
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
  for (const std::uint32_t i : stable_order(n, data_first, producer)) {
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
  const std::vector<std::uint32_t> by_tensor = stable_order(g.num_tensors(), edges_, tensor_of);
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
  for (const std::uint32_t e : stable_order(n, g.edges_, dst)) {
    g.in_.push_back(static_cast<EdgeId>(e));
    g.in_src_.push_back(g.edges_[static_cast<EdgeId>(e)].src);
  }

  // Times per device kind: an op's one time stands for the kinds it does not name, unless it names
  // some.
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
