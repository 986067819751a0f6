#include "traces/import/kineto/recording.h"

#include <numeric>
#include <tuple>

namespace baechi::kineto {
namespace {

// Events of ph "X" with a duration. A Python frame is used if it is named "nn.Module: Conv2d_0".

constexpr std::string_view module_prefix = "nn.Module: ";

CallKind call_kind(const Event& event) {
  using enum Category;
  switch (event.category) {
    case python:
      return event.name.starts_with(module_prefix) ? CallKind::module : CallKind::other;
    case annotation:
      return CallKind::annotation;
    case call:
      return event.name.starts_with("ProfilerStep#") || event.name.starts_with("Optimizer.")
                 ? CallKind::annotation
                 : CallKind::op;
    case driver:
      return CallKind::runtime;
    default:
      return CallKind::other;
  }
}

class RecordingReader {
 public:
  explicit RecordingReader(TextFile& file) : text_(file.rest()), file_(file.path(), text_) {}

  Recording read() {
    FileFacts file = read_events(file_, [&](const Event& event) { add(event); });
    recording_.device = std::move(file.device);
    recording_.of_simulation = file.simulated;
    nest();
    recording_.overruns = cut_overruns(recording_.work);
    std::ranges::stable_sort(recording_.waits, {}, &RecordedWait::start);
    return std::move(recording_);
  }

 private:
  void add(const Event& event) {
    if (event.phase != "X" || event.name == "[memory]") return;
    const bool work = is_device_work(event.category), waits = event.category == Category::wait;
    const CallKind call = call_kind(event);
    if (!work && !waits && call == CallKind::other) return;
    if (!event.is_timed(file_)) return;
    if (waits) {
      recording_.waits.push_back({.device = event.device.value_or(0),
                                  .stream = event.stream,
                                  .awaited_stream = event.awaited_stream,
                                  .awaited_record = event.awaited_record,
                                  .correlation = event.correlation,
                                  .start = *event.start,
                                  .of_stream = event.name.find("Wait") != std::string_view::npos});
      return;
    }
    if (work) {
      recording_.work.push_back({.name = std::string(event.name),
                                 .kind = event.category == Category::kernel ? WorkKind::kernel
                                         : event.category == Category::copy ? WorkKind::copy
                                                                            : WorkKind::fill,
                                 .device = event.device.value_or(0),
                                 .stream = event.stream.value_or(0),
                                 .start = *event.start,
                                 .duration = *event.duration,
                                 .bytes = {event.bytes.value_or(0)},
                                 .correlation = event.correlation,
                                 .communication = event.communication});
      return;
    }
    const bool module = call == CallKind::module;
    const std::string_view name = module ? event.name.substr(module_prefix.size()) : event.name;
    (module ? recording_.modules : recording_.calls)
        .push_back({.name = std::string(name),
                    .kind = call,
                    .thread = threads_.of(event),
                    .start = *event.start,
                    .duration = *event.duration,
                    .correlation = event.correlation,
                    .communication = event.communication});
  }

  void nest() {
    std::vector<Call>& calls = recording_.calls;
    // Two calls with the same start: the longer one is the parent, but never a driver call.
    std::ranges::stable_sort(calls, {}, [](const Call& c) {
      return std::tuple(c.thread, c.start, c.kind == CallKind::runtime, -c.duration);
    });
    std::ranges::stable_sort(recording_.modules, {},
                             [](const Call& c) { return std::pair(c.start, -c.duration); });
    std::vector<std::size_t> open;
    for (std::size_t i = 0; i < calls.size(); ++i) {
      const auto encloses = [&](std::size_t outer) {
        return calls[outer].thread == calls[i].thread && calls[outer].end() >= calls[i].end() &&
               (calls[outer].end() > calls[i].start || calls[outer].start == calls[i].start);
      };
      while (!open.empty() && !encloses(open.back())) open.pop_back();
      if (!open.empty()) calls[i].parent = open.back();
      open.push_back(i);
    }
  }

  const std::string text_;
  JsonFile file_;
  Recording recording_;
  ThreadNumbers threads_;
};

/// The letters of `text` in lower case: "allreduce" of "AllReduce" and "all_reduce".
std::string letters(std::string_view text) {
  std::string found;
  for (const char c : text)
    if (const char lower = static_cast<char>(c | 0x20); lower >= 'a' && lower <= 'z')
      found += lower;
  return found;
}

}  // namespace

Recording read_recording(TextFile& file) { return RecordingReader(file).read(); }

bool is_nccl(const DeviceWork& work) {
  return work.kind == WorkKind::kernel && (work.name.starts_with("nccl") || work.communication);
}

std::optional<CollectiveKind> collective_kind(const DeviceWork& work) {
  if (!is_nccl(work)) return std::nullopt;
  const std::string name = letters(work.communication && !work.communication->name.empty()
                                       ? std::string_view(work.communication->name)
                                       : std::string_view(work.name));
  using enum CollectiveKind;
  constexpr std::pair<std::string_view, CollectiveKind> kinds[] = {
      {"allreduce", all_reduce},
      {"reducescatter", reduce_scatter},
      {"allgather", all_gather},
      {"broadcast", broadcast},
      {"alltoall", all_to_all}};
  for (const auto& [word, kind] : kinds)
    if (name.find(word) != std::string::npos) return kind;
  return std::nullopt;
}

bool looks_like_kineto(std::string_view beginning) {
  if (beginning.find("\"traceEvents\"") != std::string_view::npos) return true;
  const std::size_t first = beginning.find_first_not_of(" \t\r\n");
  return first != std::string_view::npos && beginning[first] == '[' &&
         beginning.find("\"ph\"") != std::string_view::npos &&
         beginning.find("\"ts\"") != std::string_view::npos;
}

}  // namespace baechi::kineto
