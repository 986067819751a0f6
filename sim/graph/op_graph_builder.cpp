#include <sys/mman.h>

#include "sim/error.h"
#include "sim/graph/op_graph.h"
#include "sim/text.h"

namespace baechi {
namespace {

constexpr std::uint64_t upper_half = ~std::uint64_t{0} << 32U;

OpId op_in(std::uint64_t slot) { return static_cast<OpId>(static_cast<std::uint32_t>(slot) - 1); }

/// Huge pages reduce TLB misses of a large table with random access; a hint, without effect where
/// they are not supported.
void ask_for_huge_pages(void* table, std::size_t bytes) {
  constexpr std::size_t huge = std::size_t{1} << 21U;
  const auto begin = reinterpret_cast<std::uintptr_t>(table);
  const std::uintptr_t first = (begin + huge - 1) / huge * huge;
  const std::uintptr_t last = (begin + bytes) / huge * huge;
  if (first < last)
    madvise(static_cast<char*>(table) + (first - begin), last - first, MADV_HUGEPAGE);
}

std::uint32_t intern(std::string_view text, std::vector<std::string>& texts, TextIds& ids) {
  if (const auto it = ids.find(text); it != ids.end()) return it->second;
  texts.emplace_back(text);
  return ids.emplace(texts.back(), static_cast<std::uint32_t>(texts.size() - 1)).first->second;
}

}  // namespace

OpId OpGraphBuilder::add_op(const OpSpec& op) {
  const OpId v = add(op.name, {.compute = op.compute,
                               .persistent = op.persistent,
                               .temporary = op.temporary,
                               .kind = intern(op.kind, kinds_, kind_ids_),
                               .phase = op.phase,
                               .lane = intern_lane(op.lane)});
  if (!op.module.empty()) set_module(v, op.module);
  if (op.cache > Bytes{}) caches_.emplace_back(v, op.cache);
  return v;
}

OpId OpGraphBuilder::add_copy(OpId of, std::string_view name, Bytes persistent, Bytes temporary) {
  Op op = ops_[of];
  op.persistent = persistent;
  op.temporary = temporary;
  op.forward = no_op;
  const OpId v = add(name, op);
  if (index(of) < module_.size()) {
    const std::uint32_t module = module_[index(of)];
    if (module_.size() < index(v)) module_.resize(index(v), 0);
    module_.push_back(module);
  }
  return v;
}

OpId OpGraphBuilder::add(std::string_view name, const Op& op) {
  BAECHI_CHECK(ops_.size() < index(no_op), "more than 2^32 - 1 ops");
  name_text_ += name;
  name_begin_.push_back(name_text_.size());
  return ops_.push_back(op);
}

void OpGraphBuilder::reserve(std::size_t ops, std::size_t tensors, std::size_t edges) {
  ops_.reserve(ops);
  name_begin_.reserve(ops + 1);
  tensors_.reserve(tensors);
  edges_.reserve(edges);
}

void OpGraphBuilder::index_names() {
  if (2 * ops_.size() > name_slots_.size()) {  // at most half full
    const std::size_t size = std::bit_ceil(std::max<std::size_t>(16, 2 * ops_.size()));
    name_slots_ = {};
    name_slots_.reserve(size);
    ask_for_huge_pages(name_slots_.data(), size * sizeof(name_slots_[0]));
    name_slots_.assign(size, 0);
    repeated_.clear();
    indexed_ = 0;
  }
  const std::size_t mask = name_slots_.size() - 1;
  for (; indexed_ < ops_.size(); ++indexed_) {
    const auto v = static_cast<OpId>(indexed_);
    const std::uint64_t hash = hash_of_text(name(v));
    std::size_t i = hash & mask;
    const auto same = [&](std::uint64_t slot) {
      return (slot & upper_half) == (hash & upper_half) && same_text(name(op_in(slot)), name(v));
    };
    while (name_slots_[i] != 0 && !same(name_slots_[i])) i = (i + 1) & mask;
    if (name_slots_[i] == 0)
      name_slots_[i] = (hash & upper_half) | (index(v) + 1);
    else
      repeated_.push_back(v);
  }
}

std::optional<OpId> OpGraphBuilder::find(std::string_view wanted) {
  index_names();
  if (name_slots_.empty()) return std::nullopt;
  const std::uint64_t hash = hash_of_text(wanted);
  const std::size_t mask = name_slots_.size() - 1;
  for (std::size_t i = hash & mask; name_slots_[i] != 0; i = (i + 1) & mask) {
    const std::uint64_t slot = name_slots_[i];
    if ((slot & upper_half) == (hash & upper_half) && same_text(name(op_in(slot)), wanted))
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

TensorId OpGraphBuilder::add_tensor(OpId producer, Bytes size, const Tensor& like) {
  const TensorId made = add_tensor(producer, size, like.reference);
  tensors_[made].fixed_size = like.fixed_size;
  return made;
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

void OpGraphBuilder::set_micro_batch(OpId op, MicroBatchCopy copy) {
  BAECHI_CHECK(op != copy.first, "'{}' is no copy of itself", name(op));
  micro_batches_.emplace_back(op, copy);
}

void OpGraphBuilder::set_forward(OpId backward, OpId forward) { ops_[backward].forward = forward; }

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
  const std::uint32_t last = module_.empty() ? 0 : module_.back();  // mostly the same
  if (module_.size() <= index(v)) module_.resize(index(v) + 1, 0);
  module_[index(v)] = modules_[last] == module ? last : intern(module, modules_, module_ids_);
}

LaneKind OpGraphBuilder::intern_lane(std::string_view name) {
  if (name == lanes_.front()) return compute_lane;
  const auto known = std::ranges::find(lanes_, name);
  const auto lane = static_cast<LaneKind>(known - lanes_.begin());
  if (known != lanes_.end()) return lane;
  if (lanes_.size() == most_lanes)
    throw InputError(fmt::format("graph: more than {} lanes: '{}'", most_lanes, name));
  lanes_.emplace_back(name);
  return lane;
}

void OpGraphBuilder::add_collective(const Collective& collective, std::span<const OpId> members) {
  BAECHI_CHECK(!members.empty(), "a collective without members");
  collectives_.push_back({collective, {members.begin(), members.end()}});
  for (const OpId v : members)
    if (ops_[v].lane == compute_lane) ops_[v].lane = intern_lane("comm");
}

void OpGraphBuilder::check_collectives() const {
  Mistakes mistakes;
  IdVector<OpId, bool> member(collectives_.empty() ? 0 : ops_.size());
  for (const auto& [collective, members] : collectives_) {
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
        mistakes.add(fmt::format(
            "graph: '{}' is a member of a collective, whose time counts: it has no time of its own",
            name(v)));
      member[v] = true;
    }
  }
  mistakes.throw_if_any();
}

void OpGraphBuilder::check_names() {
#ifndef BAECHI_CHECKS
  if (!unique_names_)
#endif
    index_names();
  Mistakes mistakes;
  for (const OpId v : repeated_)
    mistakes.add(fmt::format("graph: two ops are named '{}'", name(v)));
  if (name_text_.find('\0') == std::string::npos) return mistakes.throw_if_any();
  for (const OpId v : ops_.ids())
    if (const std::size_t zero = name(v).find('\0'); zero != std::string_view::npos)
      mistakes.add(fmt::format("graph: the name of op {}, '{}...', has a zero byte", index(v),
                               name(v).substr(0, zero)));
  mistakes.throw_if_any();
}

void OpGraphBuilder::check_sums() const {
  // Sums of times and sizes along paths and on devices must not overflow.
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

}  // namespace baechi
