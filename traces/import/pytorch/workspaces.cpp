#include "traces/import/pytorch/workspaces.h"

#include <algorithm>
#include <map>

namespace baechi::pytorch {
namespace {

/// Bytes that the graph frees when the op ends: of tensors that are not read later.
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

RecordedOp* last_reader(const Contents& c) {
  const auto last = std::ranges::max_element(c.readers, {}, &RecordedOp::position);
  return last == c.readers.end() ? nullptr : *last;
}

}  // namespace

const Call& outermost(const Call& call) {
  const Call* found = &call;
  for (const Call* c = call.parent; c != nullptr; c = c->parent)
    if (c->is_operator || c->is_autograd()) found = c;
  return *found;
}

bool is_new(const Contents& c) {
  return c.storage != nullptr && !c.storage->external && !c.reference;
}

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
  std::map<const Call*, std::int64_t> held;  // by the graph, since the call began; never iterated
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
