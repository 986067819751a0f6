#include "traces/import/pytorch/join.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "sim/error.h"

namespace baechi::pytorch {
namespace {

using Id = std::optional<std::int64_t> HostEvent::*;

/// Joins calls and events that have the same number and the same name.
Join by_number(const ExecutionTrace& trace, const Kineto& kineto, Id id, std::string key) {
  Join join{.event = {}, .key = std::move(key)};
  join.event.resize(trace.calls.size());
  std::unordered_multimap<std::int64_t, std::size_t> events;
  for (std::size_t i = 0; i < kineto.calls.size(); ++i)
    if (const auto n = kineto.calls[i].*id; n && *n != 0) events.emplace(*n, i);
  for (const Call& call : trace.calls) {
    const auto [first, last] = events.equal_range(call.id);
    for (auto it = first; it != last; ++it)
      if (call.full_name == kineto.calls[it->second].name && !join.event[call.index]) {
        join.event[call.index] = it->second;
        ++join.matched;
      }
  }
  return join;
}

/// [calls] whether the profiler without Kineto leaves the call out: it is an only child and has its
/// parent's name. Its children then count as the parent's, so the rule may apply to them again.
std::vector<bool> left_out(const ExecutionTrace& trace) {
  std::vector<bool> out(trace.calls.size());
  for (const Call& call : trace.calls) {
    const Call* parent = call.parent;
    out[call.index] =
        parent != nullptr && parent->children.size() == 1 && parent->full_name == call.full_name;
  }
  return out;
}

struct Sequences {
  struct Thread {
    std::vector<std::size_t> items;  // calls or events, by start
    std::vector<std::uint32_t> names;
  };
  std::vector<Thread> threads;
};

/// Numbers names, in common for calls and events.
class Names {
 public:
  std::uint32_t of(const std::string& name) {
    return numbers_.emplace(name, static_cast<std::uint32_t>(numbers_.size())).first->second;
  }

 private:
  std::unordered_map<std::string, std::uint32_t> numbers_;
};

Sequences of_calls(const ExecutionTrace& trace, const std::vector<bool>& out, Names& names) {
  Sequences all;
  std::unordered_map<std::int64_t, std::size_t> threads;
  for (const Call& call : trace.calls) {
    if (out[call.index]) continue;
    const auto [it, added] = threads.emplace(call.thread, all.threads.size());
    if (added) all.threads.emplace_back();
    all.threads[it->second].items.push_back(call.index);
    all.threads[it->second].names.push_back(names.of(call.full_name));
  }
  return all;
}

Sequences of_events(const Kineto& kineto, Names& names) {
  Sequences all;
  all.threads.resize(kineto.num_threads);
  for (std::size_t i = 0; i < kineto.calls.size(); ++i) {
    all.threads[kineto.calls[i].thread].items.push_back(i);
    all.threads[kineto.calls[i].thread].names.push_back(names.of(kineto.calls[i].name));
  }
  return all;
}

/// Matches `names` with consecutive events from `at` on, as far as they agree; returns the matched
/// events. Among events that begin at the same time, any may be next, because the profiler does not
/// keep the order of the calls there.
std::vector<std::size_t> follow(const std::vector<std::uint32_t>& names,
                                const Sequences::Thread& events, const Kineto& kineto,
                                std::size_t at) {
  constexpr std::size_t most_at_once = 64;
  const auto start = [&](std::size_t i) { return kineto.calls[events.items[i]].start; };
  std::vector<std::size_t> found;
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
    found.push_back(events.items[i]);
    if (i == at)
      ++at;
    else
      ahead.push_back(i);
  }
  return found;
}

/// All places where the longest matching beginning of `names` occurs, each as a list of events.
std::vector<std::vector<std::size_t>> find(const std::vector<std::uint32_t>& names,
                                           const Sequences::Thread& events, const Kineto& kineto) {
  std::vector<std::vector<std::size_t>> best;
  for (std::size_t at = 0; at < events.items.size(); ++at) {
    if (events.names[at] != names.front()) continue;
    if (!best.empty() && at + best.front().size() > events.items.size()) break;
    std::vector<std::size_t> found = follow(names, events, kineto, at);
    if (!best.empty() && found.size() < best.front().size()) continue;
    if (!best.empty() && found.size() > best.front().size()) best.clear();
    best.push_back(std::move(found));
  }
  return best;
}

/// Joins each thread's calls with the thread of the recording, and the place on it, where the most
/// calls in a row match, from the first call on. Ties go to the place where the most of autograd's
/// sequence numbers agree, then to the last place, when the run is warm.
Join by_names(const ExecutionTrace& trace, const Kineto& kineto, const std::vector<bool>& out,
              std::string key) {
  Join join{.event = {}, .key = std::move(key)};
  join.event.resize(trace.calls.size());
  Names names;
  const Sequences calls = of_calls(trace, out, names), events = of_events(kineto, names);
  std::vector<bool> taken(events.threads.size());
  for (const Sequences::Thread& mine : calls.threads) {
    std::vector<std::vector<std::size_t>> best;
    std::size_t where = 0;
    for (std::size_t t = 0; t < events.threads.size(); ++t) {
      if (taken[t]) continue;
      auto found = find(mine.names, events.threads[t], kineto);
      if (found.empty() || (!best.empty() && found.front().size() <= best.front().size())) continue;
      best = std::move(found);
      where = t;
    }
    if (best.empty()) continue;
    taken[where] = true;
    join.repeated = std::max(join.repeated, best.size());
    join.matched += best.front().size();
    const auto agreeing = [&](const std::vector<std::size_t>& place) {
      std::size_t n = 0;
      for (std::size_t i = 0; i < place.size(); ++i) {
        const auto number = kineto.calls[place[i]].sequence;
        n += number && *number == trace.calls[mine.items[i]].sequence ? 1U : 0U;
      }
      return n;
    };
    const std::vector<std::size_t>* chosen = &best.front();
    for (const auto& place : best)
      if (agreeing(place) >= agreeing(*chosen)) chosen = &place;
    join.numbers_agreed |= agreeing(*chosen) > 0;
    for (std::size_t i = 0; i < chosen->size(); ++i) join.event[mine.items[i]] = (*chosen)[i];
  }
  for (const Call& call : trace.calls) {
    if (!out[call.index]) continue;
    join.event[call.index] = join.event[call.parent->index];
    if (join.event[call.index]) ++join.matched;
  }
  return join;
}

}  // namespace

Join join(const ExecutionTrace& trace, const Kineto& kineto, const std::string& trace_path,
          const std::string& kineto_path) {
  const std::vector<bool> none(trace.calls.size());
  const std::function<Join()> ways[] = {
      [&] {
        return by_number(trace, kineto, &HostEvent::record_function_id, "Record function id");
      },
      [&] { return by_number(trace, kineto, &HostEvent::external_id, "External id"); },
      [&] { return by_names(trace, kineto, none, "order of names"); },
      [&] {
        return by_names(trace, kineto, left_out(trace), "order of names but only children's");
      }};
  std::string tried;
  for (const auto& way : ways) {
    Join found = way();
    if (10 * found.matched >= 9 * trace.calls.size() && found.matched > 0) return found;
    tried += fmt::format("{}{} {}", tried.empty() ? "" : ", ", found.key, found.matched);
  }
  throw InputError(fmt::format(
      "{}: not of the run that {} records: of its {} calls it has, by {}; record both in "
      "one run",
      kineto_path, trace_path, trace.calls.size(), tried));
}

std::vector<CallTime> call_times(const ExecutionTrace& trace, const Kineto& kineto,
                                 const Join& join) {
  std::vector<CallTime> times(trace.calls.size());
  std::vector<std::optional<std::size_t>> call_of(kineto.calls.size());
  for (const Call& call : trace.calls) {
    const auto event = join.event[call.index];
    if (!event) continue;
    const HostEvent& e = kineto.calls[*event];
    times[call.index] = {
        .known = true, .start = e.start, .end = e.end(), .line = kineto.line[*event]};
    if (!call_of[*event]) call_of[*event] = call.index;
  }
  for (std::size_t i = 0; i < kineto.calls.size(); ++i) {
    if (kineto.calls[i].device == Duration{}) continue;
    std::optional<std::size_t>
        call;  // the event's call, else that of the innermost enclosing event with a call
    for (std::optional<std::size_t> event = i; event && !call; event = kineto.calls[*event].parent)
      call = call_of[*event];
    if (call) times[*call].device += kineto.calls[i].device;
  }
  for (auto call = trace.calls.rbegin(); call != trace.calls.rend(); ++call)
    if (call->parent != nullptr) times[call->parent->index].device += times[call->index].device;
  return times;
}

}  // namespace baechi::pytorch
