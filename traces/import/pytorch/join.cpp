#include "traces/import/pytorch/join.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <unordered_map>

#include "sim/error.h"
#include "traces/import/pytorch/join_names.h"

namespace baechi::pytorch {
namespace {

using Id = std::optional<std::int64_t> HostEvent::*;

/// Joins calls and events of equal number and name.
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

}  // namespace

Join join(const ExecutionTrace& trace, const Kineto& kineto, const std::string& trace_path,
          const std::string& kineto_path) {
  using enum ExportedCalls;
  struct JoinKey {
    std::function<Join()> find;
    double required;  // required fraction of calls with an event
  };
  const JoinKey keys[] = {
      {[&] {
         return by_number(trace, kineto, &HostEvent::record_function_id, "Record function id");
       },
       0.9},
      {[&] { return by_number(trace, kineto, &HostEvent::external_id, "External id"); }, 0.9},
      {[&] { return by_names(trace, kineto, all); }, 1.0},
      {[&] { return by_names(trace, kineto, without_only_children); }, 1.0},
      {[&] {
         Join whole = by_names_with_gaps(trace, kineto, all);
         Join fewer = by_names_with_gaps(trace, kineto, without_only_children);
         return fewer.matched > whole.matched ? std::move(fewer) : std::move(whole);
       },
       0.99},
  };
  std::string tried;
  const auto calls = static_cast<double>(trace.calls.size());
  for (const JoinKey& key : keys) {
    Join found = key.find();
    if (static_cast<double>(found.matched) >= key.required * calls && found.matched > 0)
      return found;
    tried += fmt::format("{}{} {}", tried.empty() ? "" : ", ", found.key, found.matched);
  }
  throw InputError(
      fmt::format("{}: not of the same run as {}: of {} calls, the following were found, by key: "
                  "{}; record both files in one run (99 % of the calls must be found)",
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
        call;  // of the event, or of the innermost enclosing event that has one
    for (std::optional<std::size_t> event = i; event && !call; event = kineto.calls[*event].parent)
      call = call_of[*event];
    if (call) times[*call].device += kineto.calls[i].device;
  }
  for (auto call = trace.calls.rbegin(); call != trace.calls.rend(); ++call)
    if (call->parent != nullptr) times[call->parent->index].device += times[call->index].device;
  return times;
}

}  // namespace baechi::pytorch
