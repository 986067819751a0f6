#include "traces/import/kineto/recording.h"

#include <algorithm>
#include <map>

#include "traces/format/json.h"
#include "traces/import/kineto/events.h"

namespace baechi::kineto {
namespace {

// Categories (cat) of events of ph "X":
// - cpu_op, user_annotation or none: a call; python_function: a Python frame, used if it is named
//   "nn.Module: Conv2d_0";
// - cuda_runtime, cuda_driver, hip...: a driver call, with a correlation;
// - kernel, gpu_memcpy, gpu_memset: work on a GPU, with device, stream and its launch's
//   correlation.

std::optional<WorkKind> work_kind(std::string_view category) {
  if (category == "kernel") return WorkKind::kernel;
  if (category == "gpu_memcpy") return WorkKind::copy;
  if (category == "gpu_memset") return WorkKind::fill;
  return std::nullopt;
}

constexpr std::string_view module_prefix = "nn.Module: ";

CallKind call_kind(std::string_view category, std::string_view name) {
  if (category == "python_function")
    return name.starts_with(module_prefix) ? CallKind::module : CallKind::other;
  if (category == "user_annotation") return CallKind::annotation;
  if (is_call(category))
    return name.starts_with("ProfilerStep#") || name.starts_with("Optimizer.")
               ? CallKind::annotation
               : CallKind::op;
  return is_driver_call(category) ? CallKind::runtime : CallKind::other;
}

class RecordingReader {
 public:
  explicit RecordingReader(TextFile& file) : text_(file.rest()), file_(file.path(), text_) {}
  Recording read();

 private:
  void add(const Event& event);
  void nest();

  const std::string text_;
  JsonFile file_;
  Recording recording_;
  ThreadNumbers threads_;
};

void RecordingReader::add(const Event& event) {
  if (event.phase != "X" || event.name == "[memory]") return;
  const auto work = work_kind(event.category);
  const CallKind call = call_kind(event.category, event.name);
  if (!work && call == CallKind::other) return;
  if (!event.is_timed(file_)) return;
  if (work) {
    recording_.work.push_back({.name = std::string(event.name),
                               .kind = *work,
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

void RecordingReader::nest() {
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

Recording RecordingReader::read() {
  FileFacts file = read_events(file_, [&](const Event& event) { add(event); });
  recording_.device = std::move(file.device);
  recording_.rank = file.rank;
  recording_.num_threads = threads_.size();
  nest();
  return std::move(recording_);
}

/// The letters of `text` in lower case: "allreduce" of "AllReduce" and "all_reduce".
std::string letters(std::string_view text) {
  std::string found;
  for (const char c : text)
    if (const char lower = static_cast<char>(c | 0x20); lower >= 'a' && lower <= 'z')
      found += lower;
  return found;
}

}  // namespace

Recording read_recording(TextFile& file) {
  return RecordingReader(file).read();
}

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
