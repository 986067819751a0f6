#include "traces/import/pytorch/align.h"

#include <algorithm>

namespace baechi::pytorch {
namespace {

using NameIds = std::span<const std::uint32_t>;
using Index = std::int64_t;
constexpr Index unreached = -1;

Index length_of(NameIds names) {
  return static_cast<Index>(names.size());
}

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

}  // namespace baechi::pytorch
