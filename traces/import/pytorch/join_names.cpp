#include "traces/import/pytorch/join_names.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "traces/import/pytorch/align.h"

namespace baechi::pytorch {
namespace {

/// [calls] Whether the profiler without Kineto omits the call: an only child with its parent's
/// name. Its children then count as the parent's, so the rule may apply to them, too.
std::vector<bool> left_out(const ExecutionTrace& trace, ExportedCalls exported) {
  std::vector<bool> out(trace.calls.size());
  if (exported == ExportedCalls::all) return out;
  for (const Call& call : trace.calls) {
    const Call* parent = call.parent;
    out[call.index] =
        parent != nullptr && parent->children.size() == 1 && parent->full_name == call.full_name;
  }
  return out;
}

struct ThreadNames {
  std::vector<std::size_t> items;  // calls or events, by start
  std::vector<std::uint32_t> names;
};

/// Numbers the names of calls and events.
class NameNumbers {
 public:
  std::uint32_t of(const std::string& name) {
    return numbers_.emplace(name, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }

 private:
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

std::vector<ThreadNames> of_calls(const ExecutionTrace& trace, const std::vector<bool>& out,
                                  NameNumbers& names) {
  std::vector<ThreadNames> all;
  std::unordered_map<std::int64_t, std::size_t> threads;
  for (const Call& call : trace.calls) {
    if (out[call.index]) continue;
    const auto [it, added] = threads.emplace(call.thread, all.size());
    if (added) all.emplace_back();
    all[it->second].items.push_back(call.index);
    all[it->second].names.push_back(names.of(call.full_name));
  }
  return all;
}

std::vector<ThreadNames> of_events(const Kineto& kineto, NameNumbers& names) {
  std::vector<ThreadNames> all(kineto.num_threads);
  for (std::size_t i = 0; i < kineto.calls.size(); ++i) {
    all[kineto.calls[i].thread].items.push_back(i);
    all[kineto.calls[i].thread].names.push_back(names.of(kineto.calls[i].name));
  }
  return all;
}

/// A match of a thread's calls: `at` is the position of each call's event on the recorded thread.
struct ThreadMatch {
  Alignment at;
  std::size_t matched = 0;
};

/// Matches `names` with consecutive events from `at` on, up to the first mismatch. Events that
/// begin at the same time may be in any order, because the profiler does not keep theirs.
ThreadMatch follow(const std::vector<std::uint32_t>& names, const ThreadNames& events,
                   const Kineto& kineto, std::size_t at) {
  constexpr std::size_t most_at_once = 64;
  const auto start = [&](std::size_t i) { return kineto.calls[events.items[i]].start; };
  ThreadMatch place{.at = Alignment(names.size())};
  std::vector<std::size_t> ahead;  // matched events after `at`
  for (const std::uint32_t name : names) {
    for (auto it = std::ranges::find(ahead, at); it != ahead.end();
         it = std::ranges::find(ahead, at)) {
      ahead.erase(it);
      ++at;
    }
    std::size_t i = at;
    const auto fits = [&] {
      return events.names[i] == name && std::ranges::find(ahead, i) == ahead.end();
    };
    const std::size_t end = std::min(events.items.size(), at + most_at_once);
    while (i < end && !fits() && start(i) == start(at)) ++i;
    if (i >= end || !fits() || start(i) != start(at)) break;
    place.at[place.matched++] = i;
    if (i == at)
      ++at;
    else
      ahead.push_back(i);
  }
  return place;
}

/// All matches of the longest prefix of the calls that occurs in the events.
std::vector<ThreadMatch> longest_prefixes(const ThreadNames& calls, const ThreadNames& events,
                                          const Kineto& kineto) {
  std::vector<ThreadMatch> best;
  for (std::size_t at = 0; at < events.items.size(); ++at) {
    if (events.names[at] != calls.names.front()) continue;
    if (!best.empty() && at + best.front().matched > events.items.size()) break;
    ThreadMatch found = follow(calls.names, events, kineto, at);
    if (!best.empty() && found.matched < best.front().matched) continue;
    if (!best.empty() && found.matched > best.front().matched) best.clear();
    best.push_back(std::move(found));
  }
  return best;
}

/// Matches remaining calls with remaining events of the same name that begin at the same time as
/// the event of the previous or next matched call.
void match_at_once(ThreadMatch& place, const ThreadNames& calls, const ThreadNames& events,
                   const Kineto& kineto) {
  constexpr std::size_t most_away = 64;
  std::vector<bool> taken(events.items.size());
  for (const auto& at : place.at)
    if (at) taken[*at] = true;
  const auto start = [&](std::size_t i) { return kineto.calls[events.items[i]].start; };
  std::optional<std::size_t> previous;
  for (std::size_t i = 0; i < place.at.size(); ++i) {
    if (place.at[i]) previous = place.at[i];
    if (place.at[i]) continue;
    const auto next = std::find_if(place.at.begin() + static_cast<std::ptrdiff_t>(i),
                                   place.at.end(), [](const auto& at) { return at.has_value(); });
    for (const auto& neighbour : {previous, next == place.at.end() ? std::nullopt : *next}) {
      if (!neighbour || place.at[i]) continue;
      const std::size_t first = *neighbour - std::min(*neighbour, most_away);
      const std::size_t last = std::min(events.items.size(), *neighbour + most_away);
      for (std::size_t j = first; j < last && !place.at[i]; ++j)
        if (!taken[j] && events.names[j] == calls.names[i] && start(j) == start(*neighbour))
          place.at[i] = j;
      if (!place.at[i]) continue;
      taken[*place.at[i]] = true;
      ++place.matched;
    }
  }
}

std::vector<ThreadMatch> with_gaps(const ThreadNames& calls, const ThreadNames& events,
                                   const Kineto& kineto) {
  std::vector<ThreadMatch> found;
  for (Alignment& at : align(calls.names, events.names, 1 + calls.names.size() / 25)) {
    ThreadMatch place{.at = std::move(at)};
    place.matched = static_cast<std::size_t>(
        std::ranges::count_if(place.at, [](const auto& event) { return event.has_value(); }));
    match_at_once(place, calls, events, kineto);
    found.push_back(std::move(place));
  }
  return found;
}

using Matcher = std::vector<ThreadMatch> (*)(const ThreadNames& calls, const ThreadNames& events,
                                             const Kineto& kineto);

Join by_order(const ExecutionTrace& trace, const Kineto& kineto, ExportedCalls exported,
              Matcher find, std::string key) {
  if (exported == ExportedCalls::without_only_children) key += " but only children's";
  Join join{.event = {}, .key = std::move(key)};
  join.event.resize(trace.calls.size());
  const std::vector<bool> out = left_out(trace, exported);
  NameNumbers names;
  const std::vector<ThreadNames> calls = of_calls(trace, out, names),
                                 events = of_events(kineto, names);
  std::vector<bool> taken(events.size());
  for (const ThreadNames& thread : calls) {
    std::vector<ThreadMatch> best;
    std::size_t where = 0;
    for (std::size_t t = 0; t < events.size(); ++t) {
      if (taken[t]) continue;
      auto found = find(thread, events[t], kineto);
      if (found.empty() || (!best.empty() && found.front().matched <= best.front().matched))
        continue;
      best = std::move(found);
      where = t;
    }
    if (best.empty()) continue;
    taken[where] = true;
    const auto event = [&](std::size_t at) { return events[where].items[at]; };
    const auto agreeing = [&](const ThreadMatch& place) {
      std::size_t n = 0;
      for (std::size_t i = 0; i < place.at.size(); ++i) {
        if (!place.at[i]) continue;
        const auto number = kineto.calls[event(*place.at[i])].sequence;
        n += number && *number == trace.calls[thread.items[i]].sequence ? 1U : 0U;
      }
      return n;
    };
    const ThreadMatch* chosen = &best.front();
    for (const ThreadMatch& place : best)
      if (agreeing(place) >= agreeing(*chosen)) chosen = &place;
    join.repeated = std::max(join.repeated, best.size());
    join.matched += chosen->matched;
    join.numbers_agreed |= agreeing(*chosen) > 0;
    for (std::size_t i = 0; i < chosen->at.size(); ++i)
      if (chosen->at[i]) join.event[thread.items[i]] = event(*chosen->at[i]);
  }
  for (const Call& call : trace.calls) {
    if (!out[call.index]) continue;
    join.event[call.index] = join.event[call.parent->index];
    if (join.event[call.index]) ++join.matched;
  }
  return join;
}

}  // namespace

Join by_names(const ExecutionTrace& trace, const Kineto& kineto, ExportedCalls exported) {
  return by_order(trace, kineto, exported, longest_prefixes, "order of names");
}

Join by_names_with_gaps(const ExecutionTrace& trace, const Kineto& kineto, ExportedCalls exported) {
  return by_order(trace, kineto, exported, with_gaps, "order of names with gaps");
}

}  // namespace baechi::pytorch
