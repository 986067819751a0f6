#include "traces/import/pytorch/dataflow.h"

namespace baechi::pytorch {
namespace {

/// The elements of a view with these sizes and strides (in elements) that begins at `offset`.
/// nullopt if they form more than a million ranges, or if sizes and strides are invalid.
std::optional<Elements> strided(std::int64_t offset, std::span<const std::int64_t> sizes,
                                std::span<const std::int64_t> strides) {
  constexpr std::int64_t most_ranges = 1 << 20;
  constexpr std::int64_t most = std::int64_t{1} << 40;
  std::vector<std::pair<std::int64_t, std::int64_t>> sides;  // stride, size
  if (sizes.size() != strides.size()) return std::nullopt;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    const std::int64_t size = sizes[i], stride = strides[i];
    if (size < 1 || size > most || stride < 0 || stride > most) return std::nullopt;
    if (stride > 0) sides.emplace_back(stride, size);
  }
  std::ranges::sort(sides);
  std::int64_t run = 1;  // length of a range of adjacent elements
  Elements ranges{{offset, offset + 1}};
  for (const auto& [stride, size] : sides) {
    if (stride == run && ranges.size() == 1) {
      if (size > most / run) return std::nullopt;
      run *= size;
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
  return std::ranges::any_of(a, [&](const auto& range) {
    const auto next = std::ranges::upper_bound(b, range.first, {}, &Elements::value_type::second);
    return next != b.end() && next->first < range.second;
  });
}

bool within(const Elements& inner, const Elements& outer) {
  return std::ranges::all_of(inner, [&](const auto& range) {
    const auto found =
        std::ranges::lower_bound(outer, range.second, {}, &Elements::value_type::second);
    return found != outer.end() && found->first <= range.first;
  });
}

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
  Contents* whole = storage.contents;
  for (const auto& [where, part] : storage.parts) {
    if (wanted != nullptr && where == *wanted) found.clear(), whole = nullptr;
    if (wanted == nullptr || overlap(where, *wanted)) found.push_back(part);
  }
  if (whole != nullptr) found.push_back(whole);
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

  void add_op(const Call& call, std::size_t root) {
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

  /// Reads the inputs, visits the children, then writes. Storage ids are addresses, which are
  /// reused: an output with an id that no input has is a new storage.
  void visit(const Call& call, RecordedOp* op) {
    const auto own = op_.find(&call);
    if (own != op_.end()) op = own->second;
    // Outputs are made before the children are visited: no call records allocations in a kernel.
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

 private:
  Storage& make(const TensorView& t, bool external) {
    Storage& storage = flow_.storages.emplace_back();
    storage.bytes = t.storage_bytes();
    storage.external = external;
    if (external) storage.shape = t.shape;
    current_[t.storage] = &storage;
    return storage;
  }

  Storage& storage_read(const Call& call, const Argument& argument, const TensorView& t) {
    const auto it = current_.find(t.storage);
    if (it != current_.end()) return *it->second;
    // An `out` argument or a buffer of an Inductor kernel is new memory: it is only written.
    const bool fresh = call.is_triton || (argument.mutated && argument.name == "out");
    return make(t, !fresh);
  }

  void read(const Call& call, const Argument& argument, const TensorView& t, RecordedOp* op) {
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
  void write(Storage& storage, const TensorView& t, RecordedOp& op) {
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

  void write_outputs(const Call& call, RecordedOp* op) {
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

  Dataflow& flow_;
  std::unordered_map<std::int64_t, Storage*> current_;  // by id; ids are reused
  std::unordered_map<const Call*, RecordedOp*> op_;     // by call or part of a call
};

/// Whether the frame's name has only letters, digits, '_' and '.'. Frames of the profiler, autograd
/// and optimizers have other names, except those listed.
bool names_module(const Call& frame) {
  if (frame.is_triton || frame.sequence >= 0 || frame.name == "record_param_comms" ||
      frame.full_name == "DistributedDataParallel.forward" || frame.full_name == "CompiledFunction")
    return false;
  const auto of_path = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
  };
  return std::ranges::all_of(frame.full_name, of_path);
}

std::string path_of(const Call& call) {
  std::vector<std::string_view> frames;
  for (const Call* c = call.parent; c != nullptr; c = c->parent)
    if (names_module(*c)) frames.push_back(c->full_name);
  std::string path;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    if (path.empty() || (frame->starts_with(path) && frame->substr(path.size()).starts_with('.'))) {
      path = *frame;
    } else {
      path += '.';
      path += *frame;
    }
  }
  return path;
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

std::string module_of(const RecordedOp& op) {
  if (op.owner != nullptr) return module_of(*op.owner);
  if (op.phase == Phase::backward && op.forward != nullptr && op.forward->phase == Phase::forward)
    return module_of(*op.forward);
  if (op.phase != Phase::forward) return "";
  return op.calls.empty() ? "" : path_of(*op.calls.front());
}

}  // namespace baechi::pytorch
