#include <unordered_set>

#include "traces/import/pytorch/training_state.h"

namespace baechi::pytorch {
namespace {

using Ops = std::vector<RecordedOp*>;

void number(Dataflow& flow) {
  for (std::size_t i = 0; i < flow.ops.size(); ++i) flow.ops[i]->position = i;
}

/// The sinks of ops [first, last) that can end last: each sink outside the set is ready no later
/// than one in it. Later ops are preferred.
Ops last_to_end(const Dataflow& flow, std::size_t first, std::size_t last) {
  std::unordered_set<const RecordedOp*> read;
  for (std::size_t i = first; i < last; ++i)
    for (const Contents* c : flow.ops[i]->reads) read.insert(c->producer);
  Ops found;
  std::unordered_set<const RecordedOp*> before;  // ancestors of the found ops
  Ops open;
  for (std::size_t i = last; i-- > first;) {
    RecordedOp* op = flow.ops[i];
    const auto is_before = [&](const Contents* c) { return before.contains(c->producer); };
    if (read.contains(op) || (!found.empty() && std::ranges::all_of(op->reads, is_before)))
      continue;
    found.push_back(op);
    open.assign(1, op);
    while (!open.empty()) {
      const RecordedOp* next = open.back();
      open.pop_back();
      for (const Contents* c : next->reads)
        if (before.insert(c->producer).second) open.push_back(c->producer);
    }
  }
  return found;
}

/// Adds the op that frees the gradient that `update` reads.
RecordedOp& zero_grad(Dataflow& flow, RecordedOp& update) {
  RecordedOp& op = flow.arena.emplace_back();
  op.kind = "zero_grad";
  op.phase = Phase::update;
  op.root = update.root;
  constexpr std::string_view word = "_update";
  op.name = update.name;
  const std::size_t at = op.name.rfind(word);
  op.name = at == std::string::npos ? op.name + "_zero_grad"
                                    : op.name.replace(at, word.size(), "_zero_grad");
  if (update.labels.empty()) update.labels = {&update};
  op.labels = update.labels;
  for (Contents* c : update.reads) {
    if (c->producer->phase == Phase::update) continue;
    op.reads.push_back(c);
    c->readers.push_back(&op);
  }
  if (update.scratch > 0) {
    Contents& c = flow.contents.emplace_back();
    c.producer = &update;
    c.bytes = update.scratch;
    c.readers = {&op};
    update.writes.push_back(&c);
    op.reads.push_back(&c);
  }
  update.before.push_back(&op);
  return op;
}

}  // namespace

void update_after_backward(Dataflow& flow) {
  std::ranges::stable_sort(flow.ops, {}, &RecordedOp::root);
  number(flow);
  Ops ordered;
  std::size_t calls = 0;  // of optimizers so far
  const auto begins = [&](std::size_t i) {
    return flow.ops[i]->phase == Phase::update &&
           (i == 0 || flow.ops[i - 1]->root != flow.ops[i]->root);
  };
  std::size_t pass = 0;  // first op of the passes before the next optimizer call
  for (std::size_t i = 0; i < flow.ops.size();) {
    if (!begins(i)) {
      ordered.push_back(flow.ops[i++]);
      continue;
    }
    std::size_t end = i;
    while (end < flow.ops.size() && flow.ops[end]->root == flow.ops[i]->root) ++end;
    const Ops updates(flow.ops.begin() + static_cast<std::ptrdiff_t>(i),
                      flow.ops.begin() + static_cast<std::ptrdiff_t>(end));
    ++calls;
    if (const Ops last = last_to_end(flow, pass, i); !last.empty()) {
      RecordedOp& barrier = flow.arena.emplace_back();
      barrier.kind = "barrier";
      barrier.phase = Phase::update;
      barrier.name = calls == 1 ? "backward_end" : fmt::format("backward_end_{}", calls);
      for (RecordedOp* op : last) op->before.push_back(&barrier);
      barrier.before = updates;
      ordered.push_back(&barrier);
    }
    ordered.insert(ordered.end(), updates.begin(), updates.end());
    for (RecordedOp* update : updates) ordered.push_back(&zero_grad(flow, *update));
    pass = i = end;
  }
  flow.ops = std::move(ordered);
  number(flow);
}

}  // namespace baechi::pytorch
