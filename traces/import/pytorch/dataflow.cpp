#include "traces/import/pytorch/dataflow.h"

#include <algorithm>
#include <array>
#include <unordered_map>

namespace baechi::pytorch {
namespace {

using Words = std::initializer_list<std::string_view>;

bool among(std::string_view name, Words words) {
  return std::ranges::find(words, name) != words.end();
}

/// They make or change the tensor around memory, and leave the memory.
bool only_allocates(std::string_view name) {
  return among(name, {"empty", "empty_strided", "empty_like", "resize_", "resize_as_",
                      "as_strided_", "detach_", "requires_grad_", "squeeze_", "unsqueeze_", "t_",
                      "transpose_", "set_", "record_stream"});
}

bool fills_or_copies(std::string_view name) {
  return among(name, {"fill_", "zero_", "zeros", "copy_", "to", "_to_copy", "clone", "contiguous"});
}

/// One op although it calls several kernels: mask and result belong together.
bool is_whole(std::string_view name) {
  return name == "dropout";
}

bool is_collective(const Call& call) {
  if (call.name != "record_param_comms") return false;
  for (const auto* arguments : {&call.inputs, &call.outputs})
    for (const Argument& a : *arguments)
      if (!a.tensors.empty()) return true;
  return false;  // a wait
}

/// An optimizer's call on lists of tensors (_foreach_add_, _fused_adam_) as a call per tensor: the
/// i-th has the i-th of each list, all that is in no list, and the time by its share of the bytes.
void split_lists(ExecutionTrace& trace, Call& whole) {
  std::size_t n = 0;
  std::int64_t total = 0;
  for (const Argument& a : whole.inputs) {
    if (!a.list || a.tensors.empty()) continue;
    n = a.tensors.size();
    for (const TensorView& t : a.tensors) total += t.bytes();
    break;
  }
  const auto spread = [&](const Argument& a) { return a.list && a.tensors.size() == n; };
  const auto part = [&](const std::vector<Argument>& arguments, std::size_t i) {
    std::vector<Argument> mine;
    for (const Argument& a : arguments) {
      mine.push_back(a);
      if (spread(a)) mine.back().tensors = {a.tensors[i]};
    }
    return mine;
  };
  std::vector<Call*> parts;
  std::int64_t before = 0;
  const Argument& sizes = *std::ranges::find_if(whole.inputs, spread);
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t bytes = sizes.tensors[i].bytes();
    const auto share = [&](std::int64_t x) {
      return total > 0 ? static_cast<double>(x) / static_cast<double>(total) : 0.0;
    };
    Call& call = trace.calls.emplace_back();
    call.full_name = whole.full_name;
    call.name = whole.name;
    call.is_operator = true;
    call.id = whole.id;
    call.thread = whole.thread;
    call.inputs = part(whole.inputs, i);
    call.outputs = part(whole.outputs, i);
    call.parent = &whole;
    call.index = whole.index;
    call.from = share(before);
    call.to = share(before + bytes);
    before += bytes;
    parts.push_back(&call);
  }
  whole.children = std::move(parts);
  whole.inputs.clear();
  whole.outputs.clear();
  whole.is_operator = false;
}

bool takes_lists(const Call& call) {
  if (!call.name.starts_with("_foreach_") && !call.name.starts_with("_fused_")) return false;
  const auto list = std::ranges::find_if(
      call.inputs, [](const Argument& a) { return a.list && !a.tensors.empty(); });
  return list != call.inputs.end() && list->tensors.size() > 1;
}

/// The calls in the subtree of `call` that become ops: the outermost ones with one kernel inside,
/// or that autograd differentiates as one.
std::vector<Call*> cut(ExecutionTrace& trace, Call& call, Dataflow& flow) {
  if (is_collective(call)) return {&call};
  std::vector<Call*> inside;
  for (Call* child : std::vector<Call*>(call.children))
    for (Call* found : cut(trace, *child, flow)) inside.push_back(found);
  if (call.is_triton) return {&call};
  if (!call.is_operator || only_allocates(call.name) || call.is_view()) return inside;
  if (!call.has_outputs() && !call.mutates()) return inside;  // item(): only Python sees the result
  if (std::ranges::any_of(inside, [](const Call* c) { return is_collective(*c); })) return inside;
  const auto kernels =
      std::ranges::count_if(inside, [](const Call* c) { return !fills_or_copies(c->name); });
  const bool below = call.sequence >= 0 &&
                     std::ranges::all_of(call.children, [](Call* c) { return c->sequence < 0; });
  if (kernels > 1 && !below && !is_whole(call.name)) return inside;
  if (!takes_lists(call)) return {&call};
  split_lists(trace, call);
  ++flow.split;
  return call.children;
}

std::string kind_of(const Call& call) {
  if (call.name == "record_param_comms" && !call.collective.empty()) return call.collective;
  std::string_view name = call.name;
  while (name.ends_with('_') && name.size() > 1) name.remove_suffix(1);
  return std::string(name);
}

/// The elements at `offset` of these sizes and strides; nothing if too many ranges or no such view.
std::optional<Elements> strided(std::int64_t offset, const Call& call) {
  constexpr std::int64_t most_ranges = 1 << 20;
  constexpr std::int64_t most = std::int64_t{1} << 40;
  std::vector<std::pair<std::int64_t, std::int64_t>> sides;  // stride, size
  if (call.sizes.size() != call.strides.size()) return std::nullopt;
  for (std::size_t i = 0; i < call.sizes.size(); ++i) {
    const std::int64_t size = call.sizes[i], stride = call.strides[i];
    if (size < 1 || size > most || stride < 0 || stride > most) return std::nullopt;
    if (size > 1 && stride > 0) sides.emplace_back(stride, size);
  }
  std::ranges::sort(sides);
  std::int64_t run = 1;  // elements beside each other
  Elements ranges{{offset, offset + 1}};
  for (const auto& [stride, size] : sides) {
    if (stride == run && ranges.size() == 1) {
      run *= size;
      if (run > most) return std::nullopt;
      ranges.front().second = offset + run;
      continue;
    }
    if (static_cast<std::int64_t>(ranges.size()) > most_ranges / size) return std::nullopt;
    Elements more;
    for (std::int64_t i = 0; i < size; ++i)
      for (const auto& [first, last] : ranges)
        more.emplace_back(first + i * stride, last + i * stride);
    std::ranges::sort(more);
    ranges.clear();
    for (const auto& range : more) {
      if (!ranges.empty() && range.first <= ranges.back().second)
        ranges.back().second = std::max(ranges.back().second, range.second);
      else
        ranges.push_back(range);
    }
    if (ranges.back().second > most) return std::nullopt;
  }
  return ranges;
}

std::int64_t size(const Elements& elements) {
  std::int64_t n = 0;
  for (const auto& [first, last] : elements) n += last - first;
  return n;
}

bool overlap(const Elements& a, const Elements& b) {
  for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
    if (std::max(a[i].first, b[j].first) < std::min(a[i].second, b[j].second)) return true;
    if (a[i].second < b[j].second)
      ++i;
    else
      ++j;
  }
  return false;
}

bool within(const Elements& inner, const Elements& outer) {
  std::size_t j = 0;
  for (const auto& [first, last] : inner) {
    while (j < outer.size() && outer[j].second < last) ++j;
    if (j == outer.size() || outer[j].first > first) return false;
  }
  return true;
}

/// The elements that `t` shows of its storage; null if that is all of it, or unknown.
const Elements* elements(const Storage& storage, const TensorView& t) {
  if (t.bytes() == storage.bytes) return nullptr;
  const auto it = storage.views.find({t.offset, t.elements});
  return it == storage.views.end() ? nullptr : &it->second;
}

/// What a reader of `t` reads.
std::vector<Contents*> contents(const Storage& storage, const TensorView& t) {
  const Elements* wanted = elements(storage, t);
  std::vector<Contents*> found;
  for (const auto& [where, part] : storage.parts) {
    if (wanted != nullptr && where == *wanted) return {part};
    if (wanted == nullptr || overlap(where, *wanted)) found.push_back(part);
  }
  if (storage.contents != nullptr) found.push_back(storage.contents);
  return found;
}

template <class T>
void add_once(std::vector<T*>& all, T* one) {
  if (std::ranges::find(all, one) == all.end()) all.push_back(one);
}

class Tracer {
 public:
  Tracer(Dataflow& flow, std::size_t calls) : flow_(flow) {
    flow_.op_of_call.resize(calls);
    flow_.source_of_call.resize(calls);
  }
  void add_op(const Call& call, std::size_t root);
  void visit(const Call& call, RecordedOp* op);

 private:
  Storage& make(const TensorView& t, bool external);
  Storage& storage_read(const Call& call, const Argument& argument, const TensorView& t);
  void read(const Call& call, const Argument& argument, const TensorView& t, RecordedOp* op);
  void write(Storage& storage, const TensorView& t, RecordedOp& op);
  void write_outputs(const Call& call, RecordedOp* op);

  Dataflow& flow_;
  std::unordered_map<std::int64_t, Storage*> current_;  // by id, which is reused
  std::unordered_map<const Call*, RecordedOp*> op_;     // parts of calls, too
};

void Tracer::add_op(const Call& call, std::size_t root) {
  RecordedOp& op = flow_.arena.emplace_back();
  op.kind = kind_of(call);
  op.phase = flow_.roots[root].second;
  op.root = root;
  op.calls = {&call};
  flow_.collectives += call.name == "record_param_comms" ? 1U : 0U;
  flow_.triton += call.is_triton ? 1U : 0U;
  flow_.ops.push_back(&op);
  flow_.op_of_call[call.index] = &op;
  op_[&call] = &op;
}

Storage& Tracer::make(const TensorView& t, bool external) {
  Storage& storage = flow_.storages.emplace_back();
  storage.bytes = t.storage_bytes();
  storage.external = external;
  if (external) storage.shape = t.shape;
  current_[t.storage] = &storage;
  return storage;
}

bool is_given(const Call& call, const TensorView& t) {
  for (const Argument& a : call.inputs)
    for (const TensorView& i : a.tensors)
      if (i.storage == t.storage) return true;
  return false;
}

Storage& Tracer::storage_read(const Call& call, const Argument& argument, const TensorView& t) {
  const auto it = current_.find(t.storage);
  if (it != current_.end()) return *it->second;
  // Memory that is only written stood empty: an `out`, or what Inductor allocated for a kernel.
  const bool fresh = call.is_triton || (argument.mutated && argument.name == "out");
  return make(t, !fresh);
}

void Tracer::read(const Call& call, const Argument& argument, const TensorView& t, RecordedOp* op) {
  const bool known = current_.contains(t.storage);
  Storage& storage = storage_read(call, argument, t);
  if (storage.role.empty()) storage.role = argument.name;
  const std::vector<Contents*> found = contents(storage, t);
  if (op == nullptr) {
    RecordedOp*& source = flow_.source_of_call[call.index];
    if (source == nullptr && !found.empty()) source = found.front()->producer;
    return;
  }
  op->touched.push_back(&storage);
  for (Contents* c : found)
    if (c->producer != op) add_once(op->reads, c);
  const bool overwritten =
      argument.mutated && among(call.name, {"zero_", "fill_", "_foreach_zero_"});
  if (storage.external && found.empty() && !overwritten) {
    op->external.push_back(&storage);
    op->role.push_back(argument.mutated ? "written" : argument.name);
  }
  if (call.is_triton && !known) write(storage, t, *op);
}

/// A new output of `op`: all of the storage, or the elements of `t`.
void Tracer::write(Storage& storage, const TensorView& t, RecordedOp& op) {
  const Elements* where = elements(storage, t);
  Contents& c = flow_.contents.emplace_back();
  c.producer = &op;
  c.storage = &storage;
  c.bytes = where == nullptr ? storage.bytes : size(*where) * t.element_bytes;
  c.in_place = storage.external || storage.contents != nullptr;
  if (where == nullptr) {
    storage.contents = &c;
    storage.parts.clear();
  } else {
    std::erase_if(storage.parts, [&](const auto& part) { return within(part.first, *where); });
    storage.parts.emplace_back(*where, &c);
  }
  op.writes.push_back(&c);
  add_once(op.written, &storage);
}

void Tracer::write_outputs(const Call& call, RecordedOp* op) {
  for (const Argument& argument : call.outputs)
    for (const TensorView& t : argument.tensors) {
      Storage& storage = *current_.at(t.storage);
      if (call.name.starts_with("resize"))
        storage.bytes = std::max(storage.bytes, t.storage_bytes());
      if (call.name == "as_strided" && t.bytes() < storage.bytes)
        if (auto found = strided(t.offset, call))
          storage.views[{t.offset, t.elements}] = std::move(*found);
      const bool given = is_given(call, t);
      // A collective says of its tensors only that they come out again.
      const bool collective = given && op != nullptr && call.name == "record_param_comms";
      if (op != nullptr && (collective || (!given && storage.contents == nullptr))) {
        write(storage, t, *op);
        op->touched.push_back(&storage);
      }
    }
}

/// A storage's id is an address and gets reused: an output in a storage that no input has is a new
/// storage.
void Tracer::visit(const Call& call, RecordedOp* op) {
  const auto mine = op_.find(&call);
  if (mine != op_.end()) op = mine->second;
  // Before the children: an allocation inside a kernel is no call.
  for (const Argument& argument : call.outputs)
    for (const TensorView& t : argument.tensors)
      if (!is_given(call, t)) make(t, false);
  std::unordered_map<std::int64_t, Storage*> given;  // as they stood before the children
  for (const Argument& argument : call.inputs)
    for (const TensorView& t : argument.tensors) {
      read(call, argument, t, op);
      given[t.storage] = current_.at(t.storage);
    }
  for (const Call* child : call.children) visit(*child, op);
  for (const Argument& argument : call.inputs)
    for (const TensorView& t : argument.tensors) {
      if (!argument.mutated || op == nullptr) continue;
      Storage& storage = *given.at(t.storage);
      const auto now = contents(storage, t);
      if (std::ranges::none_of(now, [&](const Contents* c) { return c->producer == op; }))
        write(storage, t, *op);
    }
  write_outputs(call, op);
  if (mine == op_.end()) return;
  if (call.is_triton && op->writes.empty() && !given.empty()) {  // in place: by custom the last
    const auto last = std::find_if(call.inputs.rbegin(), call.inputs.rend(),
                                   [](const Argument& a) { return !a.tensors.empty(); });
    write(*given.at(last->tensors.back().storage), last->tensors.back(), *op);
  }
  for (const Argument& argument : call.outputs)
    for (const TensorView& t : argument.tensors) op->results.push_back(current_.at(t.storage));
}

}  // namespace

std::vector<std::pair<Call*, Phase>> phases(const std::vector<Call*>& roots) {
  const auto is_frame = [](const Call& c) { return c.is_autograd() || c.is_optimizer(); };
  const bool trained = std::ranges::any_of(roots, [](Call* c) { return c->is_autograd(); });
  std::size_t forward = 0;  // how many begin before the backward pass
  for (std::size_t i = 0; i < roots.size(); ++i)
    if (roots[i]->sequence >= 0 && !is_frame(*roots[i])) forward = i + 1;
  std::vector<std::pair<Call*, Phase>> found;
  for (std::size_t i = 0; i < roots.size(); ++i) {
    const bool update = roots[i]->name.starts_with("Optimizer.step");
    const bool before = !trained || (i < forward && !roots[i]->is_autograd());
    found.emplace_back(roots[i], update   ? Phase::update
                                 : before ? Phase::forward
                                          : Phase::backward);
  }
  return found;
}

Dataflow trace_dataflow(ExecutionTrace& trace, std::vector<std::pair<Call*, Phase>> roots) {
  Dataflow flow;
  flow.roots = std::move(roots);
  Tracer tracer(flow, trace.calls.size());
  for (std::size_t i = 0; i < flow.roots.size(); ++i) {
    for (const Call* call : cut(trace, *flow.roots[i].first, flow)) tracer.add_op(*call, i);
    tracer.visit(*flow.roots[i].first, nullptr);
  }
  return flow;
}

std::vector<RecordedOp*> drop_unread(Dataflow& flow) {
  Phase last = Phase::forward;
  for (const RecordedOp* op : flow.ops) last = std::max(last, op->phase);
  for (Contents& c : flow.contents) c.readers.clear();
  std::map<const RecordedOp*, std::size_t> readers;
  for (RecordedOp* op : flow.ops)
    for (Contents* c : op->reads) {
      c->readers.push_back(op);
      ++readers[c->producer];
    }
  std::vector<RecordedOp*> dropped;
  for (RecordedOp* op : flow.ops)
    if (op->phase != last && readers[op] == 0) dropped.push_back(op);
  for (std::size_t i = 0; i < dropped.size(); ++i)
    for (Contents* c : dropped[i]->reads) {
      std::erase(c->readers, dropped[i]);
      if (--readers[c->producer] == 0 && c->producer->phase != last) dropped.push_back(c->producer);
    }
  std::vector<RecordedOp*> sorted = dropped;
  std::ranges::sort(sorted);
  std::erase_if(flow.ops, [&](RecordedOp* op) { return std::ranges::binary_search(sorted, op); });
  return dropped;
}

}  // namespace baechi::pytorch
