/// Reads files of PyTorch's profiler (Kineto, a Chrome trace) event by event.
#pragma once
#include <map>

#include "sim/units.h"
#include "traces/format/json.h"

namespace baechi::kineto {

/// The args of an NCCL kernel, or of the call record_param_comms that launched it.
struct Communication {
  std::string name, group;  ///< "allreduce", "0"
  std::optional<std::int64_t> in_elements, out_elements, element_bytes, ranks, sequence;
};

enum class Category : std::uint8_t {
  call,        ///< of an operator
  annotation,  ///< of the user
  python,      ///< a Python frame
  driver,      ///< a driver call: CUDA, HIP and others
  kernel,      ///< on a GPU, as the next two
  copy,
  fill,
  wait,   ///< of a stream or of the host for work on a GPU
  other,  ///< known, but not used
  unknown
};

/// An event with the args that importers use. Strings are only valid during the call, except
/// `process` and `thread`.
struct Event {
  std::size_t line = 0;    ///< index among all events, from 0
  std::size_t offset = 0;  ///< byte in the file
  std::string_view name{}, phase{};
  Category category = Category::call;
  std::string_view process{}, thread{};  ///< as written; valid as long as the file's text
  std::optional<Duration> start{}, duration{};

  std::optional<std::int64_t> record_function_id{}, external_id{}, sequence{};  ///< of a call
  std::optional<std::int64_t> index{};                      ///< "Ev Idx", in the profiler's order
  std::optional<std::int64_t> correlation{};                ///< the same for a launch and its work
  std::optional<std::int64_t> device{}, stream{}, bytes{};  ///< of work on a GPU
  std::optional<std::int64_t> awaited_stream{};             ///< of a wait: "wait_on_stream"
  std::optional<std::int64_t> awaited_record{};  ///< of a wait: correlation of the EventRecord
  std::optional<std::int64_t> allocated{}, device_type{};  ///< of [memory]: "Bytes", "Device Type"
  std::optional<std::int64_t> address{};                   ///< of [memory]: "Addr"
  std::optional<Communication> communication{};            ///< if it has a "Collective name"

  /// Whether the event has a start and, if `lasts`, a duration. Adds a mistake to `file` if not.
  bool is_timed(JsonFile& file, bool lasts = true) const;
};

/// The facts of a file that are not events.
struct FileFacts {
  std::string device;      ///< name of the first device; "" if not stated
  bool simulated = false;  ///< a timeline of this program (sim/report/perfetto.cpp)
};

/// Calls `use` with each event, in the order of the file. The format: {"traceEvents": [...]}, or
/// the list alone (the profiler without Kineto). An event has name, ph, cat, pid, tid, ts and dur;
/// ts and dur are microseconds and may have a fraction. Throws the mistakes of `file` at the end; a
/// missing list of events is one, and so are unknown categories in the file of a GPU without any
/// work on it.
/// Source: libkineto/src/output_json.cpp, torch/csrc/distributed/c10d/ParamCommsUtils.hpp for the
/// args of collectives, and files of several GPUs.
FileFacts read_events(JsonFile& file, const std::function<void(const Event&)>& use);

/// Numbers threads from 0, in order of first use.
class ThreadNumbers {
 public:
  std::size_t of(const Event& event) {
    return numbers_.emplace(std::pair(event.process, event.thread), numbers_.size()).first->second;
  }
  std::size_t size() const { return numbers_.size(); }

 private:
  std::map<std::pair<std::string_view, std::string_view>, std::size_t> numbers_;
};

/// The category `name` of an event. PyTorch 1.8 to 1.11 wrote other names than later versions.
Category category_of(std::string_view name);
bool is_device_work(Category category);

}  // namespace baechi::kineto
