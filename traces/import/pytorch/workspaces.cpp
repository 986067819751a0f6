#include "traces/import/pytorch/workspaces.h"

#include <algorithm>
#include <functional>
#include <map>

namespace baechi::pytorch {
namespace {

/// The outermost operator or function of autograd around `call`.
const Call& outermost(const Call& call) {
  const Call* found = &call;
  for (const Call* c = call.parent; c != nullptr; c = c->parent)
    if (c->is_operator || c->is_autograd()) found = c;
  return *found;
}

/// Whether the step allocates it: no input, and not what was there before.
bool is_new(const Contents& c) {
  return c.storage != nullptr && !c.storage->external;
}

/// Bytes that the graph gives back when the op ends: of tensors that nobody reads later.
std::int64_t given_back(const RecordedOp& op) {
  const auto last = [&](const Contents* c) {
    return std::ranges::all_of(c->readers,
                               [&](const RecordedOp* r) { return r->position <= op.position; });
  };
  std::int64_t bytes = 0;
  for (const Contents* c : op.reads)
    if (is_new(*c) && last(c)) bytes += c->bytes;
  for (const Contents* c : outputs(op))
    if (is_new(*c) && last(c)) bytes += c->bytes;
  return bytes;
}

/// An operator or a function of autograd with its ops.
struct CallOps {
  const Call* call;
  std::vector<RecordedOp*> ops;
};

/// In the order of their first ops, updates last.
std::vector<CallOps> calls_of(const Dataflow& flow) {
  std::vector<CallOps> calls;
  std::map<const Call*, std::size_t> index;  // looked up
  for (RecordedOp* op : flow.ops) {
    if (op->calls.empty()) continue;
    const Call& call = outermost(*op->calls.front());
    const auto [it, added] = index.try_emplace(&call, calls.size());
    if (added) calls.push_back({&call, {}});
    calls[it->second].ops.push_back(op);
  }
  std::ranges::stable_partition(
      calls, [](const CallOps& c) { return c.ops.front()->phase != Phase::update; });
  return calls;
}

/// Bytes that the graph takes more when the call has ended than before it.
std::int64_t taken(const CallOps& outer) {
  std::int64_t bytes = 0;
  for (const RecordedOp* op : outer.ops) {
    for (const Contents* c : outputs(*op))
      if (is_new(*c)) bytes += c->bytes;
    bytes -= given_back(*op);
  }
  return bytes;
}

/// What the call's ops read and wrote and nobody reads from op `first` on, the largest first.
std::vector<Contents*> gone_before(const RecordedOp& first, const CallOps& outer) {
  std::vector<Contents*> found;
  for (const RecordedOp* op : outer.ops)
    for (const auto* list : {&op->reads, &op->writes})
      for (Contents* c : *list)
        if (is_new(*c) && !c->readers.empty() && std::ranges::find(found, c) == found.end() &&
            std::ranges::all_of(c->readers,
                                [&](const RecordedOp* r) { return r->position < first.position; }))
          found.push_back(c);
  std::ranges::stable_sort(found, std::greater{}, &Contents::bytes);
  return found;
}

/// The last op of a function of autograd. Sums with other gradients, right in the frame around it,
/// run when it has let go of what it held.
RecordedOp* last_inside(const CallOps& outer) {
  const auto last = std::find_if(outer.ops.rbegin(), outer.ops.rend(), [&](const RecordedOp* op) {
    return op->kind != "add" || op->calls.front()->parent != outer.call;
  });
  return last == outer.ops.rend() ? outer.ops.back() : *last;
}

/// Null if nobody reads it.
RecordedOp* last_reader(const Contents& c) {
  const auto last = std::ranges::max_element(c.readers, {}, &RecordedOp::position);
  return last == c.readers.end() ? nullptr : *last;
}

}  // namespace

void hold_parts(Dataflow& flow) {
  for (const Storage& storage : flow.storages) {
    if (storage.external) continue;
    RecordedOp* last = nullptr;
    for (const auto& [where, part] : storage.parts)
      if (RecordedOp* reader = last_reader(*part);
          reader != nullptr && (last == nullptr || reader->position > last->position))
        last = reader;
    if (last == nullptr) continue;
    for (const auto& [where, part] : storage.parts)
      if (last->position > part->producer->position && last_reader(*part) != last) {
        part->readers.push_back(last);
        last->reads.push_back(part);
      }
  }
}

void read_saved_tensors(const Dataflow& flow, const Times& times) {
  std::vector<CallOps> calls = calls_of(flow);
  std::map<const RecordedOp*, const CallOps*> call_of;  // looked up
  for (const CallOps& outer : calls)
    for (const RecordedOp* op : outer.ops) call_of.emplace(op, &outer);
  for (std::size_t i = 0; i + 1 < calls.size(); ++i) {
    const auto forward = call_of.find(calls[i].ops.front()->forward);
    const auto before = times.live_before(*calls[i].call);
    const auto after = times.live_before(*calls[i + 1].call);
    if (forward == call_of.end() || !before || !after) continue;
    std::int64_t released = taken(calls[i]) - (*after - *before);
    if (released <= 0) continue;
    for (Contents* c : gone_before(*calls[i].ops.front(), *forward->second)) {
      if (c->bytes > released) continue;
      released -= c->bytes;
      c->readers.push_back(last_inside(calls[i]));
    }
  }
}

void read_until_end(const Dataflow& flow, const Times& times) {
  for (const CallOps& outer : calls_of(flow)) {
    RecordedOp* last = last_inside(outer);
    const auto peak = times.peak(*last, *outer.call);
    if (!peak || last->phase == Phase::update) continue;
    std::int64_t held = 0;  // by the graph, more than before the call
    for (const RecordedOp* op : outer.ops) {
      for (const Contents* c : outputs(*op))
        if (is_new(*c)) held += c->bytes;
      if (op == last) break;
      held -= given_back(*op);
    }
    for (Contents* c : gone_before(*last, outer)) {
      if (c->bytes > *peak - held || std::ranges::find(outer.ops, c->producer) != outer.ops.end())
        continue;
      held += c->bytes;
      c->readers.push_back(last);
      last->reads.push_back(c);
    }
  }
}

std::vector<const Contents*> outputs(const RecordedOp& op) {
  std::vector<const Contents*> found;
  for (const Contents* c : op.writes)
    if (!c->readers.empty()) found.push_back(c);
  if (found.empty() && op.phase != Phase::update)
    for (const Contents* c : op.writes)
      if (!c->storage->state) found.push_back(c);
  std::ranges::stable_partition(found, [&](const Contents* c) {
    return std::ranges::find(op.results, c->storage) != op.results.end();
  });
  return found;
}

std::vector<std::int64_t> workspaces(const Dataflow& flow, const Times& times, Workspace workspace,
                                     UpdateOrder optimizer) {
  std::vector<std::int64_t> found;
  std::map<const Call*, std::int64_t> held;  // by the graph, more than before the call; looked up
  for (const RecordedOp* op : flow.ops) {
    std::int64_t& bytes = found.emplace_back(0);
    if (op->calls.empty()) continue;
    const Call& first = *op->calls.front();
    if (op->phase == Phase::update || workspace == Workspace::op) {
      bytes = times.temporary(*op, first);
      if (op->phase == Phase::update && optimizer != UpdateOrder::as_ready)
        bytes = std::max(bytes, times.temporary(*op, *flow.roots[op->root].first));
      continue;
    }
    const Call& around = outermost(first);
    std::int64_t& before = held[&around];
    for (const Contents* c : outputs(*op))
      if (is_new(*c)) before += c->bytes;
    if (const auto peak = times.peak(*op, around))
      bytes = std::max(std::int64_t{0}, *peak - before);
    before -= given_back(*op);
  }
  return found;
}

}  // namespace baechi::pytorch
