#include "traces/import/pytorch/join.h"

#include <numeric>

#include "traces/import/kineto/recording.h"

namespace baechi::pytorch {
namespace {

// Categories (cat) of events of ph "X":
// - cpu_op, user_annotation or none: a call;
// - cuda_runtime, cuda_driver, hip...: a driver call that launches work, with its correlation;
// - kernel, gpu_memcpy, gpu_memset: work on the GPU, with its launch's correlation.
// Instant events named [memory] are allocations.

enum class EventKind : std::uint8_t { call, launch, device, memory, other };

EventKind kind_of(const kineto::Event& event) {
  using enum kineto::Category;
  if (event.name == "[memory]" && (event.phase == "i" || event.phase == "X"))
    return EventKind::memory;
  if (event.phase != "X") return EventKind::other;
  if (event.category == call || event.category == annotation) return EventKind::call;
  if (kineto::is_device_work(event.category)) return EventKind::device;
  return event.category == driver ? EventKind::launch : EventKind::other;
}

class KinetoReader {
 public:
  explicit KinetoReader(TextFile& file) : text_(file.rest()), file_(file.path(), text_) {}

  Kineto read() {
    kineto_.device =
        kineto::read_events(file_, [&](const kineto::Event& event) { add(event); }).device;
    kineto_.num_threads = threads_.size();
    sort_calls();
    nest();
    attribute();
    std::ranges::stable_sort(kineto_.memory, {}, &MemoryEvent::at);
    return std::move(kineto_);
  }

 private:
  struct Launch {
    std::size_t thread;
    Duration at;
    std::int64_t correlation;
  };
  struct DeviceEvent {
    std::int64_t device, stream;
    Duration start, duration;
    std::optional<std::int64_t> correlation, external_id;
  };

  void add(const kineto::Event& event) {
    const EventKind kind = kind_of(event);
    if (kind == EventKind::other || !event.is_timed(file_, kind != EventKind::memory)) return;
    if (kind == EventKind::call) {
      kineto_.calls.push_back({.name = std::string(event.name),
                               .thread = threads_.of(event),
                               .start = *event.start,
                               .duration = *event.duration,
                               .record_function_id = event.record_function_id,
                               .external_id = event.external_id,
                               .sequence = event.sequence});
      kineto_.line.push_back(event.line);
      index_.push_back(event.index);
    } else if (kind == EventKind::launch) {
      if (event.correlation)
        launches_.push_back({threads_.of(event), *event.start, *event.correlation});
    } else if (kind == EventKind::device) {
      device_events_.push_back(
          {event.device.value_or(0), event.stream.value_or(-1 - std::ssize(device_events_)),
           *event.start, *event.duration, event.correlation, event.external_id});
    } else if (event.allocated) {
      kineto_.memory.push_back({.at = *event.start,
                                .line = event.line,
                                .bytes = *event.allocated,
                                .on_device = event.device_type.value_or(0) != 0,
                                .address = event.address});
    }
  }

  /// Sorts calls by thread, then start. Ties, where the parent must come first, are broken by the
  /// profiler's index, or by the order in the file if there is none.
  void sort_calls() {
    std::vector<std::size_t> order(kineto_.calls.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::ranges::stable_sort(order, [&](std::size_t a, std::size_t b) {
      const HostEvent &x = kineto_.calls[a], &y = kineto_.calls[b];
      if (x.thread != y.thread) return x.thread < y.thread;
      if (x.start != y.start) return x.start < y.start;
      if (index_[a] && index_[b]) return *index_[a] < *index_[b];
      return false;
    });
    std::vector<HostEvent> calls;
    std::vector<std::size_t> lines;
    calls.reserve(order.size());
    for (const std::size_t i : order) {
      calls.push_back(std::move(kineto_.calls[i]));
      lines.push_back(kineto_.line[i]);
    }
    kineto_.calls = std::move(calls);
    kineto_.line = std::move(lines);
  }

  void nest() {
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < kineto_.calls.size(); ++i) {
      HostEvent& call = kineto_.calls[i];
      while (!open.empty() && (kineto_.calls[open.back()].thread != call.thread ||
                               kineto_.calls[open.back()].end() < call.end() ||
                               kineto_.calls[open.back()].end() <= call.start))
        open.pop_back();
      if (!open.empty()) call.parent = open.back();
      open.push_back(i);
    }
  }

  /// Adds the time of each kernel, copy and fill to the call that launched it: the innermost call
  /// that encloses the driver call with the same correlation; without such a driver call, the call
  /// with the same external id.
  void attribute() {
    std::ranges::stable_sort(launches_, {},
                             [](const Launch& l) { return std::pair(l.thread, l.at); });
    std::unordered_map<std::int64_t, std::optional<std::size_t>> launcher;
    std::size_t next = 0;
    std::vector<std::size_t> open;
    for (const Launch& launch : launches_) {
      const auto closed = [&](const HostEvent& call) {
        return call.thread != launch.thread || call.end() < launch.at;
      };
      for (; next < kineto_.calls.size(); ++next) {
        const HostEvent& call = kineto_.calls[next];
        if (std::pair(call.thread, call.start) > std::pair(launch.thread, launch.at)) break;
        if (!closed(call)) open.push_back(next);
      }
      // Times are rounded to microseconds, so an ended call may be below an open one: erase all.
      std::erase_if(open, [&](std::size_t i) { return closed(kineto_.calls[i]); });
      launcher.emplace(launch.correlation,
                       open.empty() ? std::nullopt : std::optional(open.back()));
    }
    std::unordered_map<std::int64_t, std::size_t> by_external_id;
    for (std::size_t i = 0; i < kineto_.calls.size(); ++i)
      if (const auto id = kineto_.calls[i].external_id; id && *id != 0)
        by_external_id.emplace(*id, i);
    for (const kineto::Overrun& overrun : kineto::cut_overruns(device_events_)) {
      ++kineto_.overruns;
      kineto_.cut += overrun.cut;
    }
    for (const DeviceEvent& event : device_events_) {
      ++kineto_.device_events;
      kineto_.device_time += event.duration;
      std::optional<std::size_t> call;
      const auto launch = event.correlation ? launcher.find(*event.correlation) : launcher.end();
      if (launch != launcher.end()) {
        call = launch->second;
      } else if (event.external_id) {
        const auto it = by_external_id.find(*event.external_id);
        if (it != by_external_id.end()) call = it->second;
      }
      if (call)
        kineto_.calls[*call].device += event.duration;
      else
        ++kineto_.without_launch;
    }
  }

  const std::string text_;
  JsonFile file_;
  Kineto kineto_;
  std::vector<std::optional<std::int64_t>> index_;  // [calls] position in the profiler's order
  std::vector<Launch> launches_;
  std::vector<DeviceEvent> device_events_;
  kineto::ThreadNumbers threads_;
};

using Id = std::optional<std::int64_t> HostEvent::*;

Join by_number(const ExecutionTrace& trace, const Kineto& kineto, Id id, std::string key) {
  Join join{.event = {}, .key = std::move(key)};
  join.event.resize(trace.calls.size());
  std::multimap<std::int64_t, std::size_t> events;  // equal numbers stay in order
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

Kineto read_kineto(TextFile& file) { return KinetoReader(file).read(); }

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
