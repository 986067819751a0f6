#include "traces/import/kineto/recording.h"

#include <algorithm>
#include <map>

#include "traces/format/json.h"
#include "traces/import/kineto_file.h"

namespace baechi::kineto {
namespace {

// The cat of an event of ph "X" says what it is:
// - cpu_op, user_annotation or none: a call; python_function: a Python frame, of which those named
//   "nn.Module: Conv2d_0" are read;
// - cuda_runtime, cuda_driver, hip...: a call of the driver, with args.correlation;
// - kernel, gpu_memcpy, gpu_memset: work on a GPU, with args.device, stream and the correlation of
//   its launch.
// Source: torch/csrc/distributed/c10d/ParamCommsUtils.hpp for the
// args of collectives.

constexpr std::int64_t most_number = std::int64_t{1} << 50;

std::optional<std::int64_t> integer(Json value) {
  const auto n = parse_number<std::int64_t>(value.token());
  return n && *n >= -most_number && *n <= most_number ? n : std::nullopt;
}

/// A non-negative number; nothing for -1, which stands for what does not apply.
std::optional<std::int64_t> count(Json value) {
  const auto n = integer(value);
  return n && *n >= 0 ? n : std::nullopt;
}

std::optional<std::int64_t> bytes_of_type(std::string_view type) {
  constexpr std::pair<std::string_view, std::int64_t> sizes[] = {
      {"Byte", 1}, {"Char", 1}, {"Bool", 1},  {"Short", 2},        {"Half", 2},  {"BFloat16", 2},
      {"Int", 4},  {"Long", 8}, {"Float", 4}, {"ComplexFloat", 8}, {"Double", 8}};
  for (const auto& [name, bytes] : sizes)
    if (type == name) return bytes;
  if (type.starts_with("Float8")) return 1;
  return std::nullopt;
}

/// The args of an event that are read.
struct Arguments {
  std::optional<std::int64_t> correlation, stream, device, bytes;
  Communication communication;
  bool communicates = false;
};

void read_argument(std::string_view key, Json v, Arguments& args) {
  Communication& c = args.communication;
  if (key == "correlation") {
    args.correlation = integer(v);
  } else if (key == "stream") {
    args.stream = integer(v);
  } else if (key == "device") {
    args.device = integer(v);
  } else if (key == "bytes") {
    args.bytes = count(v);
    if (!args.bytes) v.is_not("a number of bytes");
  } else if (key == "Collective name") {
    c.name = v.string();
    args.communicates = true;
  } else if (key == "Process Group Name") {
    c.group = v.string();
  } else if (key == "In msg nelems") {
    c.in_elements = count(v);
  } else if (key == "Out msg nelems") {
    c.out_elements = count(v);
  } else if (key == "Group size") {
    c.ranks = count(v);
  } else if (key == "Seq") {
    c.sequence = count(v);
  } else if (key == "dtype") {
    c.element_bytes = bytes_of_type(v.string());
  }
}

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
  if (category.empty() || category == "cpu_op" || category == "Operator")
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
  void add(const KinetoEvent& event, const Arguments& args);
  std::size_t thread(const KinetoEvent& event) {
    return threads_.emplace(std::pair(event.process, event.thread), threads_.size()).first->second;
  }
  void nest();

  const std::string text_;
  JsonFile file_;
  Recording recording_;
  std::map<std::pair<std::string_view, std::string_view>, std::size_t> threads_;
};

void RecordingReader::add(const KinetoEvent& event, const Arguments& args) {
  if (event.phase != "X" || event.name == "[memory]") return;
  const auto work = work_kind(event.category);
  const CallKind call = call_kind(event.category, event.name);
  if (!work && call == CallKind::other) return;
  if (!event.start || !event.duration)
    return file_.mistake(event.offset,
                         fmt::format("an event needs '{}'", event.start ? "dur" : "ts"));
  const auto communication = args.communicates ? std::optional(args.communication) : std::nullopt;
  if (work) {
    recording_.work.push_back({.name = std::string(event.name),
                               .kind = *work,
                               .device = args.device.value_or(0),
                               .stream = args.stream.value_or(0),
                               .start = *event.start,
                               .duration = *event.duration,
                               .bytes = {args.bytes.value_or(0)},
                               .correlation = args.correlation,
                               .communication = communication});
    return;
  }
  const bool module = call == CallKind::module;
  const std::string_view name = module ? event.name.substr(module_prefix.size()) : event.name;
  (module ? recording_.modules : recording_.calls)
      .push_back({.name = std::string(name),
                  .kind = call,
                  .thread = thread(event),
                  .start = *event.start,
                  .duration = *event.duration,
                  .correlation = args.correlation,
                  .communication = communication});
}

void RecordingReader::nest() {
  std::vector<Call>& calls = recording_.calls;
  // The longer of two calls that begin together is the parent; a call of the driver never is.
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
  Arguments args;
  KinetoFile file = read_kineto_file(
      file_, [&](std::string_view key, Json v) { read_argument(key, v, args); },
      [&](const KinetoEvent& event) { add(event, std::exchange(args, {})); });
  recording_.device = std::move(file.device);
  recording_.rank = file.rank;
  recording_.num_threads = threads_.size();
  nest();
  return std::move(recording_);
}

/// Letters alone, in lower case: "AllReduce" and "all_reduce" are one.
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
