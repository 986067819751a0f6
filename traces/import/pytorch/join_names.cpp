#include "traces/import/pytorch/join_names.h"

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "traces/import/pytorch/align.h"

namespace baechi::pytorch {
namespace {

/// [calls] whether the profiler without Kineto leaves the call out: it is an only child and has its
/// parent's name. Its children then count as the parent's, so the rule may apply to them again.
std::vector<bool> left_out(const ExecutionTrace& trace, Exported exported) {
  std::vector<bool> out(trace.calls.size());
  if (exported == Exported::all) return out;
  for (const Call& call : trace.calls) {
    const Call* parent = call.parent;
    out[call.index] =
        parent != nullptr && parent->children.size() == 1 && parent->full_name == call.full_name;
  }
  return out;
}

struct Thread {
  std::vector<std::size_t> items;  // calls or events, by start
  std::vector<std::uint32_t> names;
};

/// Numbers names, in common for calls and events.
class NameNumbers {
 public:
  std::uint32_t of(const std::string& name) {
    return numbers_.emplace(name, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }

 private:
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

std::vector<Thread> of_calls(const ExecutionTrace& trace, const std::vector<bool>& out,
                             NameNumbers& names) {
  std::vector<Thread> all;
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

std::vector<Thread> of_events(const Kineto& kineto, NameNumbers& names) {
  std::vector<Thread> all(kineto.num_threads);
  for (std::size_t i = 0; i < kineto.calls.size(); ++i) {
    all[kineto.calls[i].thread].items.push_back(i);
    all[kineto.calls[i].thread].names.push_back(names.of(kineto.calls[i].name));
  }
  return all;
}

/// A place on a thread of the recording: [calls of a thread] the position of the call's event
/// there.
struct MatchedPlace {
  Alignment at;
  std::size_t matched = 0;
};

/// Matches `names` with consecutive events from `at` on, as far as they agree. Among events that
/// begin at the same time, any may be next, because the profiler does not keep the order of the
/// calls there.
MatchedPlace follow(const std::vector<std::uint32_t>& names, const Thread& events,
                    const Kineto& kineto, std::size_t at) {
  constexpr std::size_t most_at_once = 64;
  const auto start = [&](std::size_t i) { return kineto.calls[events.items[i]].start; };
  MatchedPlace place{.at = Alignment(names.size())};
  std::vector<std::size_t> ahead;  // events after `at` that are matched already
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

/// All places where the longest matching beginning of the calls occurs.
std::vector<MatchedPlace> in_a_row(const Thread& calls, const Thread& events,
                                   const Kineto& kineto) {
  std::vector<MatchedPlace> best;
  for (std::size_t at = 0; at < events.items.size(); ++at) {
    if (events.names[at] != calls.names.front()) continue;
    if (!best.empty() && at + best.front().matched > events.items.size()) break;
    MatchedPlace found = follow(calls.names, events, kineto, at);
    if (!best.empty() && found.matched < best.front().matched) continue;
    if (!best.empty() && found.matched > best.front().matched) best.clear();
    best.push_back(std::move(found));
  }
  return best;
}

/// Matches calls that are left with events that are left, of the same name, that begin together
/// with the event of the call's neighbour.
void match_at_once(MatchedPlace& place, const Thread& calls, const Thread& events,
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
    for (const auto& beside : {previous, next == place.at.end() ? std::nullopt : *next}) {
      if (!beside || place.at[i]) continue;
      const std::size_t first = *beside - std::min(*beside, most_away);
      const std::size_t last = std::min(events.items.size(), *beside + most_away);
      for (std::size_t j = first; j < last && !place.at[i]; ++j)
        if (!taken[j] && events.names[j] == calls.names[i] && start(j) == start(*beside))
          place.at[i] = j;
      if (!place.at[i]) continue;
      taken[*place.at[i]] = true;
      ++place.matched;
    }
  }
}

std::vector<MatchedPlace> with_gaps(const Thread& calls, const Thread& events,
                                    const Kineto& kineto) {
  std::vector<MatchedPlace> found;
  for (Alignment& at : align(calls.names, events.names, 1 + calls.names.size() / 25)) {
    MatchedPlace place{.at = std::move(at)};
    place.matched = static_cast<std::size_t>(
        std::ranges::count_if(place.at, [](const auto& event) { return event.has_value(); }));
    match_at_once(place, calls, events, kineto);
    found.push_back(std::move(place));
  }
  return found;
}

using Find = std::vector<MatchedPlace> (*)(const Thread& calls, const Thread& events,
                                           const Kineto& kineto);

Join by_order(const ExecutionTrace& trace, const Kineto& kineto, Exported exported, Find find,
              std::string key) {
  if (exported == Exported::but_only_children) key += " but only children's";
  Join join{.event = {}, .key = std::move(key)};
  join.event.resize(trace.calls.size());
  const std::vector<bool> out = left_out(trace, exported);
  NameNumbers names;
  const std::vector<Thread> calls = of_calls(trace, out, names), events = of_events(kineto, names);
  std::vector<bool> taken(events.size());
  for (const Thread& mine : calls) {
    std::vector<MatchedPlace> best;
    std::size_t where = 0;
    for (std::size_t t = 0; t < events.size(); ++t) {
      if (taken[t]) continue;
      auto found = find(mine, events[t], kineto);
      if (found.empty() || (!best.empty() && found.front().matched <= best.front().matched))
        continue;
      best = std::move(found);
      where = t;
    }
    if (best.empty()) continue;
    taken[where] = true;
    const auto event = [&](std::size_t at) { return events[where].items[at]; };
    const auto agreeing = [&](const MatchedPlace& place) {
      std::size_t n = 0;
      for (std::size_t i = 0; i < place.at.size(); ++i) {
        if (!place.at[i]) continue;
        const auto number = kineto.calls[event(*place.at[i])].sequence;
        n += number && *number == trace.calls[mine.items[i]].sequence ? 1U : 0U;
      }
      return n;
    };
    const MatchedPlace* chosen = &best.front();
    for (const MatchedPlace& place : best)
      if (agreeing(place) >= agreeing(*chosen)) chosen = &place;
    join.repeated = std::max(join.repeated, best.size());
    join.matched += chosen->matched;
    join.numbers_agreed |= agreeing(*chosen) > 0;
    for (std::size_t i = 0; i < chosen->at.size(); ++i)
      if (chosen->at[i]) join.event[mine.items[i]] = event(*chosen->at[i]);
  }
  for (const Call& call : trace.calls) {
    if (!out[call.index]) continue;
    join.event[call.index] = join.event[call.parent->index];
    if (join.event[call.index]) ++join.matched;
  }
  return join;
}

}  // namespace

Join by_names(const ExecutionTrace& trace, const Kineto& kineto, Exported exported) {
  return by_order(trace, kineto, exported, in_a_row, "order of names");
}

Join by_names_with_gaps(const ExecutionTrace& trace, const Kineto& kineto, Exported exported) {
  return by_order(trace, kineto, exported, with_gaps, "order of names with gaps");
}

}  // namespace baechi::pytorch
