#include "traces/import/pytorch/join.h"

namespace baechi::pytorch {
namespace {

using NameIds = std::span<const std::uint32_t>;
using Index = std::int64_t;
constexpr Index unreached = -1;

Index length_of(NameIds names) { return static_cast<Index>(names.size()); }

/// The first index >= x where calls and events differ, if calls[x] is aligned with events[y].
Index slide(NameIds calls, NameIds events, Index x, Index y) {
  while (x < length_of(calls) && y < length_of(events) &&
         calls[static_cast<std::size_t>(x)] == events[static_cast<std::size_t>(y)]) {
    ++x;
    ++y;
  }
  return x;
}

struct EventRange {
  Index begin, end;  // in events
};

/// The ranges of events with the fewest gaps. On diagonal k, call x is aligned with event x + k.
/// For each diagonal, `reached` is the furthest x with the current number of gaps, and `begin` the
/// event where its alignment begins.
std::vector<EventRange> best_ranges(NameIds calls, NameIds events, Index most_gaps) {
  const Index n = length_of(calls), m = length_of(events), low = -most_gaps;
  const auto slot = [&](Index k) { return static_cast<std::size_t>(k - low + 1); };
  std::vector<Index> reached(static_cast<std::size_t>(m - low + 3), unreached), begin(reached);
  for (Index k = 0; k <= m; ++k) {
    reached[slot(k)] = slide(calls, events, 0, k);
    begin[slot(k)] = k;
  }
  std::vector<Index> next = reached, next_begin = begin;
  for (Index gaps = 0;; ++gaps) {
    std::vector<EventRange> found;
    for (Index k = -gaps; k <= m; ++k)
      if (reached[slot(k)] == n && n + k <= m) found.push_back({begin[slot(k)], n + k});
    if (!found.empty() || gaps == most_gaps) return found;
    for (Index k = -gaps - 1; k <= m; ++k) {
      Index x = reached[slot(k)], from = begin[slot(k)];
      if (const Index event = reached[slot(k - 1)]; event > x && event + k <= m) {
        x = event;
        from = begin[slot(k - 1)];
      }
      if (const Index call = reached[slot(k + 1)]; call != unreached && call + 1 > x && call < n) {
        x = call + 1;
        from = begin[slot(k + 1)];
      }
      next[slot(k)] = x == unreached || x + k < 0 ? unreached : slide(calls, events, x, x + k);
      next_begin[slot(k)] = from;
    }
    std::swap(reached, next);
    std::swap(begin, next_begin);
  }
}

/// Computes the alignment of all calls with all events that has the fewest gaps.
class Aligned {
 public:
  Aligned(NameIds calls, NameIds events) : calls_(calls), events_(events) {}
  Alignment make(Index first_event);

 private:
  /// The furthest x on a diagonal directly after a gap.
  struct Start {
    Index x;
    bool by_call;  // the gap is a call without an event
  };
  Index furthest(std::size_t gaps, Index k) const {
    const auto g = static_cast<Index>(gaps);
    return k < -g || k > g ? unreached : furthest_[gaps][static_cast<std::size_t>(k + g)];
  }
  Start start(std::size_t gaps, Index k) const;

  NameIds calls_, events_;
  std::vector<std::vector<Index>> furthest_;  // [gaps][k + gaps]
};

Aligned::Start Aligned::start(std::size_t gaps, Index k) const {
  if (gaps == 0) return {.x = 0, .by_call = false};
  const Index event = furthest(gaps - 1, k - 1), call = furthest(gaps - 1, k + 1);
  const bool event_fits = event != unreached && event + k <= length_of(events_);
  const bool call_fits = call != unreached && call < length_of(calls_) && call + 1 + k >= 0;
  if (call_fits && (!event_fits || call + 1 > event)) return {.x = call + 1, .by_call = true};
  return {.x = event_fits ? event : unreached, .by_call = false};
}

Alignment Aligned::make(Index first_event) {
  const Index n = length_of(calls_), m = length_of(events_);
  for (std::size_t gaps = 0;; ++gaps) {
    const auto g = static_cast<Index>(gaps);
    furthest_.emplace_back(2 * gaps + 1, unreached);
    for (Index k = -g; k <= g; k += 2)
      if (const Index x = start(gaps, k).x; x != unreached)
        furthest_[gaps][static_cast<std::size_t>(k + g)] = slide(calls_, events_, x, x + k);
    if (furthest(gaps, m - n) == n) break;
  }
  Alignment alignment(calls_.size());
  Index x = n, k = m - n;
  for (std::size_t gaps = furthest_.size(); gaps-- > 0;) {
    const Start from = start(gaps, k);
    for (; x > from.x; --x)
      alignment[static_cast<std::size_t>(x - 1)] =
          static_cast<std::size_t>(first_event + x - 1 + k);
    if (from.by_call) --x;
    k += from.by_call ? 1 : -1;
  }
  return alignment;
}

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
  std::set<std::size_t> ahead;  // matched events after `at`, and some before
  for (const std::uint32_t name : names) {
    while (ahead.contains(at)) ++at;
    std::size_t i = at;
    const auto fits = [&] { return events.names[i] == name && !ahead.contains(i); };
    const std::size_t end = std::min(events.items.size(), at + most_at_once);
    while (i < end && !fits() && start(i) == start(at)) ++i;
    if (i >= end || !fits() || start(i) != start(at)) break;
    place.at[place.matched++] = i;
    if (i == at)
      ++at;
    else
      ahead.insert(i);
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

std::vector<Alignment> align(NameIds calls, NameIds events, std::size_t most_gaps) {
  constexpr std::size_t most_ranges = 64;
  std::vector<Alignment> found;
  if (calls.empty()) return found;
  std::vector<EventRange> all = best_ranges(calls, events, static_cast<Index>(most_gaps));
  if (all.size() > most_ranges)
    all.erase(all.begin(), all.end() - static_cast<std::ptrdiff_t>(most_ranges));
  for (const auto& [begin, end] : all) {
    const NameIds inside =
        events.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
    found.push_back(Aligned(calls, inside).make(begin));
  }
  const auto matched = [](const Alignment& a) {
    return std::ranges::count_if(a, [](const auto& at) { return at.has_value(); });
  };
  std::ptrdiff_t most = 0;
  for (const Alignment& a : found) most = std::max<std::ptrdiff_t>(most, matched(a));
  std::erase_if(found, [&](const Alignment& a) { return matched(a) < most; });
  return found;
}

Join by_names(const ExecutionTrace& trace, const Kineto& kineto, ExportedCalls exported) {
  return by_order(trace, kineto, exported, longest_prefixes, "order of names");
}

Join by_names_with_gaps(const ExecutionTrace& trace, const Kineto& kineto, ExportedCalls exported) {
  return by_order(trace, kineto, exported, with_gaps, "order of names with gaps");
}

}  // namespace baechi::pytorch
