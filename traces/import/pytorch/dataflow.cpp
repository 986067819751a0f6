#include "traces/import/pytorch/dataflow.h"

#include <algorithm>
#include <unordered_map>

#include "traces/import/pytorch/cut.h"

namespace baechi::pytorch {
namespace {

/// The elements of `storage` that `t` shows; null if they are all elements, or unknown.
const Elements* element_range(const Storage& storage, const TensorView& t) {
  if (t.bytes() == storage.bytes) return nullptr;
  const auto it = storage.views.find({t.offset, t.elements});
  return it == storage.views.end() ? nullptr : &it->second;
}

/// The outputs that a reader of `t` reads.
std::vector<Contents*> contents(const Storage& storage, const TensorView& t) {
  const Elements* wanted = element_range(storage, t);
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

class DataflowTracer {
 public:
  DataflowTracer(Dataflow& flow, std::size_t calls) : flow_(flow) {
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
  std::unordered_map<std::int64_t, Storage*> current_;  // by id; ids are reused
  std::unordered_map<const Call*, RecordedOp*> op_;     // by call or part of a call
};

void DataflowTracer::add_op(const Call& call, std::size_t root) {
  RecordedOp& op = flow_.arena.emplace_back();
  op.kind = kind_of(call);
  op.phase = flow_.roots[root].second;
  op.root = root;
  op.calls = {&call};
  op.collective = call.name == "record_param_comms";
  flow_.collectives += op.collective ? 1U : 0U;
  flow_.triton += call.is_triton ? 1U : 0U;
  flow_.ops.push_back(&op);
  flow_.op_of_call[call.index] = &op;
  op_[&call] = &op;
}

Storage& DataflowTracer::make(const TensorView& t, bool external) {
  Storage& storage = flow_.storages.emplace_back();
  storage.bytes = t.storage_bytes();
  storage.external = external;
  if (external) storage.shape = t.shape;
  current_[t.storage] = &storage;
  return storage;
}

Storage& DataflowTracer::storage_read(const Call& call, const Argument& argument,
                                      const TensorView& t) {
  const auto it = current_.find(t.storage);
  if (it != current_.end()) return *it->second;
  // An `out` argument or a buffer of an Inductor kernel is new memory: it is only written.
  const bool fresh = call.is_triton || (argument.mutated && argument.name == "out");
  return make(t, !fresh);
}

void DataflowTracer::read(const Call& call, const Argument& argument, const TensorView& t,
                          RecordedOp* op) {
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
  if (storage.external && found.empty()) {
    op->external.push_back(&storage);
    op->role.push_back(argument.mutated ? "written" : argument.name);
  }
  if (call.is_triton && !known) write(storage, t, *op);
}

/// Makes a new output of `op`: the whole storage, or the elements of `t`.
void DataflowTracer::write(Storage& storage, const TensorView& t, RecordedOp& op) {
  const Elements* where = element_range(storage, t);
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

void DataflowTracer::write_outputs(const Call& call, RecordedOp* op) {
  for (const Argument& argument : call.outputs)
    for (const TensorView& t : argument.tensors) {
      Storage& storage = *current_.at(t.storage);
      if (call.name.starts_with("resize"))
        storage.bytes = std::max(storage.bytes, t.storage_bytes());
      if (call.name == "as_strided" && t.bytes() < storage.bytes)
        if (auto found = strided(t.offset, call.sizes, call.strides))
          storage.views[{t.offset, t.elements}] = std::move(*found);
      const bool given = call.is_given(t);
      // A collective's schema does not mark mutated inputs: they are the inputs that it returns.
      const bool collective = given && op != nullptr && call.name == "record_param_comms";
      if (op != nullptr && (collective || (!given && storage.contents == nullptr))) {
        write(storage, t, *op);
        op->touched.push_back(&storage);
      }
    }
}

/// Reads the inputs, visits the children, then writes. Storage ids are addresses, which are reused:
/// an output with an id that no input has is a new storage.
void DataflowTracer::visit(const Call& call, RecordedOp* op) {
  const auto own = op_.find(&call);
  if (own != op_.end()) op = own->second;
  // Before the children are visited, because allocations within a kernel are not recorded.
  for (const Argument& argument : call.outputs)
    for (const TensorView& t : argument.tensors)
      if (!call.is_given(t)) make(t, false);
  std::unordered_map<std::int64_t, Storage*> given;  // storages before the children run
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
  if (own == op_.end() || op == nullptr) return;
  if (call.is_triton && op->writes.empty() &&
      !given.empty()) {  // in place: by convention the last argument
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
  std::size_t forward = 0;  // number of roots before the backward pass
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
  DataflowTracer tracer(flow, trace.calls.size());
  for (std::size_t i = 0; i < flow.roots.size(); ++i) {
    for (const Call* call : cut(trace, *flow.roots[i].first, flow.split)) tracer.add_op(*call, i);
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
  // Writes to memory from before the step are visible after it, collectives to other processes.
  const auto is_kept = [&](const RecordedOp* op) {
    return op->phase == last || op->collective ||
           std::ranges::any_of(op->written, [](const Storage* s) { return s->external; });
  };
  std::vector<RecordedOp*> dropped;
  for (RecordedOp* op : flow.ops) {
    if (readers[op] > 0) continue;
    op->side_effect = op->phase != last && is_kept(op);
    if (!is_kept(op)) dropped.push_back(op);
  }
  for (std::size_t i = 0; i < dropped.size(); ++i)
    for (Contents* c : dropped[i]->reads) {
      std::erase(c->readers, dropped[i]);
      if (--readers[c->producer] > 0) continue;
      c->producer->side_effect = c->producer->phase != last && is_kept(c->producer);
      if (!is_kept(c->producer)) dropped.push_back(c->producer);
    }
  std::vector<RecordedOp*> sorted = dropped;
  std::ranges::sort(sorted);
  std::erase_if(flow.ops, [&](RecordedOp* op) { return std::ranges::binary_search(sorted, op); });
  return dropped;
}

}  // namespace baechi::pytorch
