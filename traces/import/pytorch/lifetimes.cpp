#include <unordered_set>

#include "traces/import/pytorch/step_times.h"

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

/// The last of the readers in op order; null if there are none.
RecordedOp* last_of(const std::vector<RecordedOp*>& readers) {
  const auto last = std::ranges::max_element(readers, {}, &RecordedOp::position);
  return last == readers.end() ? nullptr : *last;
}

void read(RecordedOp& op, Contents& c) {
  if (std::ranges::find(c.readers, &op) != c.readers.end()) return;
  c.readers.push_back(&op);
  op.reads.push_back(&c);
}

bool is_update(const RecordedOp* op) { return op->phase == Phase::update; }

/// The storages that the step allocates, with their contents in write order.
using StorageWrites = std::vector<std::pair<Storage*, std::vector<Contents*>>>;

StorageWrites storage_writes(Dataflow& flow) {
  const std::unordered_set<const RecordedOp*> kept(flow.ops.begin(), flow.ops.end());
  std::unordered_map<const Storage*, std::size_t> index;  // looked up
  StorageWrites found;
  for (Contents& c : flow.contents) {
    if (!is_new(c) || !kept.contains(c.producer) || is_update(c.producer)) continue;
    const auto [it, added] = index.try_emplace(c.storage, found.size());
    if (added) found.push_back({c.storage, {}});
    found[it->second].second.push_back(&c);
  }
  return found;
}

class InPlace {
 public:
  explicit InPlace(Dataflow& flow) : flow_(flow) {
    for (const RecordedOp* op : flow.ops) module_.push_back(module_of(*op));
  }

  void share(const Storage& storage, const std::vector<Contents*>& all) {
    Contents* whole = nullptr;
    std::vector<Contents*> parts;
    const auto end_parts = [&] {
      if (whole != nullptr && !parts.empty()) join(*whole, parts);
      parts.clear();
    };
    for (Contents* c : all) {
      if (c->bytes < storage.bytes) {
        parts.push_back(c);
        continue;
      }
      end_parts();
      if (whole != nullptr) reuse_storage(*whole, *c);
      whole = c;
    }
    end_parts();
  }

 private:
  const std::string& module(const RecordedOp& op) const { return module_[op.position]; }

  void reuse_storage(Contents& before, Contents& now) {
    RecordedOp& op = *now.producer;
    if (last_of(before.readers) != &op || module(op).empty()) return;
    Contents& seen = flow_.contents.emplace_back(before);
    seen.reference = true;
    seen.readers = {&op};
    before.producer->writes.push_back(&seen);
    std::erase(before.readers, &op);
    std::ranges::replace(op.reads, &before, &seen);
    const RecordedOp* last = last_of(before.readers);
    const std::size_t until = last != nullptr ? last->position : before.producer->position;
    for (std::size_t k = op.position; k-- > until + 1;)
      if ((module_[k] == module(op) || module_[k] == module(*before.producer)) &&
          !is_update(flow_.ops[k])) {
        read(*flow_.ops[k], before);
        return;
      }
  }

  void join(Contents& whole, const std::vector<Contents*>& parts) {
    std::set<std::string> modules{module(*whole.producer)};
    for (const RecordedOp* r : whole.readers) modules.insert(module(*r));
    std::vector<RecordedOp*> readers;
    for (const Contents* part : parts) {
      modules.insert(module(*part->producer));
      readers.insert(readers.end(), part->readers.begin(), part->readers.end());
    }
    RecordedOp* last = last_of(readers);
    if (last == nullptr || !modules.contains(module(*last)) || module(*whole.producer).empty())
      return;
    for (Contents* part : parts) {
      part->reference = true;
      for (RecordedOp* update : std::vector(part->readers)) {
        if (!is_update(update)) continue;
        read(*update, whole);
        part->producer->before.push_back(update);
        std::erase(part->readers, update);
        std::erase(update->reads, part);
      }
    }
    read(*last, whole);
  }

  Dataflow& flow_;
  std::vector<std::string> module_;  // [flow.ops]
};

/// The memory events [first, end) of an op: from its start to its end, or to the next op's start.
struct EventWindow {
  RecordedOp* op;
  std::size_t first, end;
};

std::vector<EventWindow> windows_of(const Dataflow& flow, const Times& times) {
  std::vector<EventWindow> found;
  for (RecordedOp* op : flow.ops)
    if (const auto events = times.events(*op); events && !is_update(op))
      found.push_back({op, events->first, events->second});
  std::ranges::stable_sort(found, {}, &EventWindow::first);
  for (std::size_t i = 0; i + 1 < found.size(); ++i)
    found[i].end = std::max(found[i].first, std::min(found[i].end, found[i + 1].first));
  return found;
}

class LifetimeExtender {
 public:
  LifetimeExtender(Dataflow& flow, const Times& times)
      : flow_(flow), windows_(windows_of(flow, times)) {
    for (const RecordedOp* op : flow.ops) module_.push_back(module_of(*op));
    by_op_.resize(windows_.size());
    for (const Times::Block& block : times.blocks()) {
      const auto made = std::ranges::partition_point(
          windows_, [&](const EventWindow& w) { return w.end <= block.first; });
      const auto freed = std::ranges::partition_point(
          windows_, [&](const EventWindow& w) { return w.first <= block.end; });
      if (made != windows_.end() && freed - made > 1)  // outlives its op
        by_op_[static_cast<std::size_t>(made - windows_.begin())].push_back(
            {block.bytes, (freed - 1)->op, block.end < times.num_events()});
    }
  }

  void extend(const StorageWrites& all) {
    match(all, true);
    match(all, false);
    for (const auto& [storage, contents] : all) {
      const auto block = block_of_.find(storage);
      if (block == block_of_.end()) continue;
      Contents* last = contents.back();
      std::set<std::string> modules;
      std::size_t read_last = 0;
      bool updated = false;
      for (Contents* c : contents) {
        modules.insert(module_[c->producer->position]);
        for (const RecordedOp* r : c->readers) {
          modules.insert(module_[r->position]);
          read_last = std::max(read_last, r->position);
          updated |= is_update(r);
        }
        if (!c->reference && c->bytes >= last->bytes) last = c;
      }
      if (updated || last->readers.empty() || !ends(*block->second, *last->producer)) continue;
      if (RecordedOp* op = reader(*block->second->freed_by, read_last, modules)) read(*op, *last);
    }
    for (std::size_t i = 0; i < windows_.size(); ++i)
      for (Block& block : by_op_[i])
        if (block.storage == nullptr && ends(block, *windows_[i].op) &&
            !filled_later(block, windows_[i], all))
          hide(windows_[i], block);
  }

 private:
  struct Block {
    std::int64_t bytes;
    RecordedOp* freed_by;  ///< the last op if it is not freed
    bool freed;
    const Storage* storage = nullptr;
  };
  static bool is_of(const Block& block, const Storage& storage) {
    constexpr std::int64_t unit = 512;  // PyTorch's GPU allocator rounds up to it
    return block.bytes == storage.bytes || block.bytes == (storage.bytes + unit - 1) / unit * unit;
  }

  /// Matches each storage with a block that its first writer allocated and did not free: one of its
  /// size or, unless `exactly`, the smallest that is large enough.
  void match(const StorageWrites& all, bool exactly) {
    std::unordered_map<const RecordedOp*, std::size_t> window;  // looked up
    for (std::size_t i = 0; i < windows_.size(); ++i) window.emplace(windows_[i].op, i);
    for (const auto& [storage, contents] : all) {
      const auto at = window.find(contents.front()->producer);
      if (at == window.end() || block_of_.contains(storage)) continue;
      Block* best = nullptr;
      for (Block& block : by_op_[at->second]) {
        if (block.storage != nullptr || block.bytes < storage->bytes) continue;
        if (exactly && !is_of(block, *storage)) continue;
        if (best == nullptr || block.bytes < best->bytes) best = &block;
      }
      if (best == nullptr) continue;
      best->storage = storage;
      block_of_.emplace(storage, best);
    }
  }

  /// Whether the block's end is known: its release or, if it is never freed, the end of its module.
  bool ends(const Block& block, const RecordedOp& producer) const {
    return block.freed || !module_[producer.position].empty();
  }

  /// The last op after position `after`, up to `freed_by`, that is in one of the modules; or null.
  RecordedOp* reader(const RecordedOp& freed_by, std::size_t after,
                     const std::set<std::string>& modules) const {
    for (std::size_t k = freed_by.position + 1; k-- > after + 1;)
      if (!is_update(flow_.ops[k]) && modules.contains(module_[k])) return flow_.ops[k];
    return nullptr;
  }

  /// Whether the block may belong to a storage whose first writer is a later op.
  bool filled_later(const Block& block, const EventWindow& window, const StorageWrites& all) const {
    return std::ranges::any_of(all, [&](const auto& entry) {
      const auto& [storage, contents] = entry;
      const std::size_t first = contents.front()->producer->position;
      return !block_of_.contains(storage) && is_of(block, *storage) &&
             first > window.op->position && first <= block.freed_by->position;
    });
  }

  /// Adds an output for a block that is not a tensor's, if it outlives the outermost call of the
  /// op.
  void hide(EventWindow& window, Block& block) {
    RecordedOp& op = *window.op;
    if (&outermost(*op.calls.front()) == &outermost(*block.freed_by->calls.front())) return;
    RecordedOp* until = reader(*block.freed_by, op.position, {module_[op.position]});
    if (until == nullptr) return;
    Storage& storage = flow_.storages.emplace_back();
    Contents& c = flow_.contents.emplace_back();
    c.producer = &op;
    c.storage = &storage;
    c.bytes = storage.bytes = block.bytes;
    op.writes.push_back(&c);
    read(*until, c);
  }

  Dataflow& flow_;
  std::vector<EventWindow> windows_;
  std::vector<std::string> module_;                            // [flow.ops]
  std::vector<std::vector<Block>> by_op_;                      // [windows_]
  std::unordered_map<const Storage*, const Block*> block_of_;  // as matched by address
};

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
    std::vector<RecordedOp*> readers;
    for (const auto& [where, part] : storage.parts)
      readers.insert(readers.end(), part->readers.begin(), part->readers.end());
    RecordedOp* last = last_of(readers);
    if (last == nullptr) continue;
    for (const auto& [where, part] : storage.parts)
      if (last->position > part->producer->position && last_of(part->readers) != last) {
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

void share_in_place(Dataflow& flow) {
  const StorageWrites all = storage_writes(flow);
  InPlace in_place(flow);
  for (const auto& [storage, contents] : all) in_place.share(*storage, contents);
}

void hold_until_freed(Dataflow& flow, const Times& times) {
  StorageWrites all = storage_writes(flow);
  LifetimeExtender(flow, times).extend(all);
}

}  // namespace baechi::pytorch
