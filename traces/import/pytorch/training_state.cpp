#include "traces/import/pytorch/training_state.h"

#include <boost/pending/disjoint_sets.hpp>
#include <unordered_set>

#include "sim/text.h"

namespace baechi::pytorch {
namespace {

template <class T>
bool contains(const std::vector<T*>& all, const T* one) {
  return std::ranges::find(all, one) != all.end();
}

bool one_of(std::string_view word, std::initializer_list<std::string_view> words) {
  return std::ranges::find(words, word) != words.end();
}

/// Whether an external storage that is no parameter persists after the step, by the name of the
/// argument that it is: a weight or a statistic.
bool is_persistent(std::string_view role) {
  constexpr std::string_view words[] = {"weight", "bias",  "running_",
                                        "params", "scale", "zero_point"};
  return one_of(role, {"written", "w_ih", "w_hh", "b_ih", "b_hh"}) ||
         std::ranges::any_of(words, [&](std::string_view word) {
           return role.find(word) != std::string_view::npos;
         });
}

/// Whether a storage with a neutral argument name is more likely a weight than an input; used if
/// the step has no update. addmm's `self` is a bias.
bool likely_weight(const Storage& storage, const RecordedOp& reader) {
  return one_of(storage.role, {"other", "mat2", "batch2", "tensor2", "vec"}) ||
         (storage.role == "self" && reader.kind.find("addmm") != std::string::npos);
}

/// Whether the op accumulates gradients of a tensor, which autograd does outside backward
/// functions.
bool is_sum_of_gradients(const RecordedOp& op) {
  const Call* frame = op.calls.front()->parent;
  return op.kind == "add" && frame != nullptr && frame->name.starts_with("autograd::engine");
}

/// The optimizer's name: "adam" for the frame Optimizer.step#Adam.step.
std::string optimizer_kind(const Call& frame) {
  std::string_view name = frame.name;
  name.remove_prefix(std::min(name.size(), name.find('#') + 1));
  return lower(name.substr(0, name.find('.')));
}

/// The call with autograd's sequence number: `call` or, if it is a frame of autograd, the backward
/// function in it; or null.
const Call* numbered(const Call& call) {
  const auto has_number = [](const Call* c) { return c->sequence >= 0 && c->forward_thread > 0; };
  if (has_number(&call)) return &call;
  if (!call.is_autograd()) return nullptr;
  const auto it = std::ranges::find_if(call.children, has_number);
  return it == call.children.end() ? nullptr : *it;
}

/// The last op among the inner calls of `call`; null if there is none.
RecordedOp* last_inside(const Dataflow& flow, const Call& call) {
  for (auto child = call.children.rbegin(); child != call.children.rend(); ++child) {
    RecordedOp* op = flow.op_of_call[(*child)->index];
    if (op == nullptr) op = last_inside(flow, **child);
    if (op != nullptr) return op;
  }
  return nullptr;
}

/// An external storage and the ops that read it, in order.
struct StateUse {
  Storage* storage;
  bool persistent = false;  // a weight or statistic, by is_persistent() or likely_weight()
  std::vector<RecordedOp*> readers;
};

std::vector<StateUse> state_uses(const Dataflow& flow, bool trained) {
  std::vector<StateUse> all;
  std::unordered_map<const Storage*, std::size_t> place;
  for (RecordedOp* op : flow.ops)
    for (std::size_t i = 0; i < op->external.size(); ++i) {
      const auto [it, added] = place.emplace(op->external[i], all.size());
      if (added) {
        const Storage& storage = *op->external[i];
        const bool kept = is_persistent(storage.role) || (!trained && likely_weight(storage, *op));
        all.push_back({.storage = op->external[i], .persistent = kept, .readers = {}});
      }
      StateUse& use = all[it->second];
      use.persistent = use.persistent || is_persistent(op->role[i]);
      if (use.readers.empty() || use.readers.back() != op) use.readers.push_back(op);
    }
  return all;
}

/// Adds `op` and its ancestors at positions >= `from` to `known`.
void add_ancestors(const RecordedOp* op, std::size_t from,
                   std::unordered_set<const RecordedOp*>& known) {
  std::vector<const RecordedOp*> open{op};
  while (!open.empty()) {
    const RecordedOp* next = open.back();
    open.pop_back();
    if (next->position < from || !known.insert(next).second) continue;
    for (const Contents* c : next->reads) open.push_back(c->producer);
  }
}

}  // namespace

void join_updates(Dataflow& flow) {
  std::vector<RecordedOp*> updates, others;
  for (RecordedOp* op : flow.ops) (op->phase == Phase::update ? updates : others).push_back(op);
  // Numbers the storages that updates write.
  std::map<std::pair<std::size_t, const Storage*>, std::size_t> number;
  for (const RecordedOp* op : updates)
    for (const Storage* s : op->written)
      number.emplace(std::pair(op->root, s), updates.size() + number.size());
  boost::disjoint_sets_with_storage<> joined(updates.size() + number.size());
  for (std::size_t i = 0; i < updates.size(); ++i)
    for (const Storage* s : updates[i]->touched)
      if (const auto it = number.find({updates[i]->root, s}); it != number.end())
        joined.union_set(it->second, i);

  std::vector<RecordedOp*> chains;  // in the order of their first ops
  std::unordered_map<std::size_t, RecordedOp*> chain_of_set;
  std::unordered_map<const RecordedOp*, RecordedOp*> chain_of;
  for (std::size_t i = 0; i < updates.size(); ++i) {
    RecordedOp*& chain = chain_of_set[joined.find_set(i)];
    if (chain == nullptr) {
      chain = &flow.arena.emplace_back();
      chain->phase = Phase::update;
      chain->root = updates[i]->root;
      chain->kind = optimizer_kind(*flow.roots[chain->root].first) + "_update";
      chains.push_back(chain);
    }
    chain_of[updates[i]] = chain;
  }
  for (RecordedOp* op : updates) {
    RecordedOp& chain = *chain_of.at(op);
    chain.calls.insert(chain.calls.end(), op->calls.begin(), op->calls.end());
    for (const Contents* c : op->writes)
      if (op->calls.front()->is_part() && !c->in_place) chain.scratch += c->bytes;
    for (Contents* c : op->reads) {
      const auto from = chain_of.find(c->producer);
      if ((from == chain_of.end() || from->second != &chain) && !contains(chain.reads, c))
        chain.reads.push_back(c);
    }
    for (std::size_t k = 0; k < op->external.size(); ++k) {
      if (contains(chain.external, op->external[k])) continue;
      chain.external.push_back(op->external[k]);
      chain.role.push_back(op->role[k]);
    }
  }
  const auto counts_steps = [](const RecordedOp* chain) { return chain->reads.empty(); };
  // Outputs of an update that other ops read become outputs of its chain.
  std::vector<RecordedOp*> all = others;
  all.insert(all.end(), chains.begin(), chains.end());
  for (RecordedOp* op : all)
    std::erase_if(op->reads, [&](Contents* c) {
      const auto from = chain_of.find(c->producer);
      if (from == chain_of.end()) return false;
      if (counts_steps(from->second)) return true;
      c->producer = from->second;
      from->second->writes.push_back(c);
      return false;
    });
  std::erase_if(
      all, [&](const RecordedOp* op) { return op->phase == Phase::update && counts_steps(op); });
  flow.ops = std::move(all);
}

StepState place_state(Dataflow& flow) {
  StepState state;
  const bool trained =
      std::ranges::any_of(flow.ops, [](RecordedOp* op) { return op->phase == Phase::update; });
  const std::vector<StateUse> all = state_uses(flow, trained);
  std::unordered_map<const Storage*, const StateUse*> use_of;
  for (const StateUse& use : all) use_of.emplace(use.storage, &use);
  std::unordered_set<const Storage*> placed;
  for (RecordedOp* update : flow.ops) {
    if (update->phase != Phase::update) continue;
    for (Storage* weight : update->external) {
      const StateUse& use = *use_of.at(weight);
      if (use.readers.front()->phase == Phase::update || !placed.insert(weight).second) continue;
      RecordedOp* owner = use.readers.front();
      if (update->owner == nullptr) update->owner = owner;
      owner->persistent += weight->bytes;
      weight->state = true;
      state.parameter_bytes += weight->bytes;
      std::vector<RecordedOp*> readers = use.readers;
      std::erase(readers, update);
      state.parameters.push_back({weight, std::move(readers), update});
    }
    RecordedOp* owner = update->owner != nullptr ? update->owner : update;
    for (Storage* kept : update->external) {
      if (!placed.insert(kept).second) continue;
      owner->persistent += kept->bytes;
      kept->state = true;
      state.optimizer_bytes += kept->bytes;
    }
  }
  std::vector<RecordedOp*> inputs;
  for (const StateUse& use : all) {
    if (placed.contains(use.storage)) continue;
    if (use.persistent) {
      use.readers.front()->persistent += use.storage->bytes;
      use.storage->state = true;
      state.other_bytes += use.storage->bytes;
      continue;
    }
    RecordedOp& input = flow.arena.emplace_back();
    input.kind = "input";
    Contents& c = flow.contents.emplace_back();
    c.producer = &input;
    c.bytes = use.storage->bytes;
    c.readers = use.readers;
    input.writes = {&c};
    for (RecordedOp* reader : use.readers) reader->reads.push_back(&c);
    if (inputs.empty() && !use.storage->shape.empty()) state.batch = use.storage->shape.front();
    state.input_bytes += c.bytes;
    inputs.push_back(&input);
  }
  state.inputs = inputs.size();
  flow.ops.insert(flow.ops.begin(), inputs.begin(), inputs.end());
  for (std::size_t i = 0; i < flow.ops.size(); ++i) flow.ops[i]->position = i;
  return state;
}

void link_forward(Dataflow& flow) {
  // Sequence numbers are per thread. The last call with a number created the backward node.
  std::unordered_map<std::int64_t, const Call*> created_by;
  const auto key = [](std::int64_t thread, std::int64_t sequence) {
    return static_cast<std::int64_t>(static_cast<std::uint64_t>(thread) << 40U) ^ sequence;
  };
  std::vector<const Call*> open;
  for (const auto& [root, phase] : flow.roots) {
    if (phase != Phase::forward) continue;
    open.assign(1, root);
    while (!open.empty()) {
      const Call* call = open.back();
      open.pop_back();
      if (call->sequence >= 0) {
        const Call*& last = created_by[key(call->thread, call->sequence)];
        if (last == nullptr || last->id <= call->id) last = call;
      }
      open.insert(open.end(), call->children.begin(), call->children.end());
    }
  }
  const auto op_around = [&](const Call* call) {
    RecordedOp* op = flow.op_of_call[call->index];
    for (const Call* c = call; op == nullptr && c != nullptr; c = c->parent)
      op = flow.op_of_call[c->index];
    if (op == nullptr) op = last_inside(flow, *call);
    return op != nullptr ? op : flow.source_of_call[call->index];
  };
  std::unordered_set<const RecordedOp*> kept(flow.ops.begin(), flow.ops.end());
  for (auto it = flow.ops.rbegin(); it != flow.ops.rend(); ++it) {
    RecordedOp& op = **it;
    if (op.phase != Phase::backward) continue;
    const Call* inner = op.calls.front();
    if (is_sum_of_gradients(op)) inner = inner->parent->parent;
    // Calls that a checkpoint recomputes and differentiates have numbers of no forward call.
    for (const Call* c = inner; c != nullptr && op.forward == nullptr; c = c->parent) {
      const Call* frame = numbered(*c);
      if (frame == nullptr) continue;
      const auto call = created_by.find(key(frame->forward_thread, frame->sequence));
      if (call == created_by.end()) continue;
      op.forward = op_around(call->second);
      if (!kept.contains(op.forward)) op.forward = nullptr;
      break;
    }
    op.differentiates = op.forward != nullptr;
    for (const Contents* c : op.writes) {
      if (op.forward != nullptr || c->readers.empty()) continue;
      const RecordedOp& reader = *c->readers.front();
      op.forward = reader.owner != nullptr ? reader.owner : reader.forward;
    }
  }
  for (RecordedOp* op : flow.ops)
    for (const Contents* c : op->reads)
      if (op->phase == Phase::backward && op->forward == nullptr)
        op->forward = c->producer->phase == Phase::forward ? c->producer : c->producer->forward;
}

void name_ops(Dataflow& flow) {
  std::unordered_map<std::string, std::size_t> count;
  // Ops that only change persistent state, such as a count of batches, are numbered last.
  for (const bool side_effect : {false, true})
    for (RecordedOp* op : flow.ops)
      if (op->phase == Phase::forward && op->side_effect == side_effect)
        op->name = fmt::format("{}_{}", op->kind, ++count[op->kind]);
  for (RecordedOp* op : flow.ops) {
    if (op->phase == Phase::forward) continue;
    const RecordedOp* of = op->owner != nullptr ? op->owner : op->forward;
    std::string name = of != nullptr ? of->name : op->kind;
    if (of != nullptr || op->phase == Phase::backward)
      name += op->phase == Phase::update ? "_update" : "_grad";
    if (of != nullptr && op->phase == Phase::backward && !op->differentiates)
      name += "_" + op->kind;
    const std::size_t n = ++count[name];
    op->name = n == 1 ? name : fmt::format("{}_{}", name, n);
  }
}

void order_updates(const StepState& state) {
  for (const StepState::Parameter& p : state.parameters) {
    const std::size_t first = p.readers.front()->position;
    std::unordered_set<const RecordedOp*> known;
    add_ancestors(p.update, first, known);
    for (auto reader = p.readers.rbegin(); reader != p.readers.rend(); ++reader) {
      if (known.contains(*reader) || (*reader)->position >= p.update->position) continue;
      (*reader)->before.push_back(p.update);
      add_ancestors(*reader, first, known);
    }
  }
}

void colocate(Dataflow& flow, const StepState& state, Colocate mode) {
  const auto label = [](RecordedOp* op, RecordedOp* with) {
    if (!contains(op->labels, with)) op->labels.push_back(with);
  };
  for (const StepState::Parameter& p : state.parameters) {
    RecordedOp* first = p.readers.front();
    label(p.update, first);
    label(first, first);
    if (mode == Colocate::updates) continue;
    for (RecordedOp* reader : p.readers) label(reader, first);
  }
  if (mode != Colocate::forward) return;
  for (RecordedOp* op : flow.ops) {
    if (op->forward == nullptr) continue;
    label(op, op->forward);
    label(op->forward, op->forward);
  }
}

}  // namespace baechi::pytorch
