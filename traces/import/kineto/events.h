/// A file of PyTorch's profiler (Kineto, a Chrome trace), event by event.
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "sim/units.h"
#include "traces/format/json.h"

namespace baechi::kineto {

/// The args of a kernel of NCCL, or of the call record_param_comms that launched it.
struct Communication {
  std::string name, group;  ///< "allreduce", "0"
  std::optional<std::int64_t> in_elements, out_elements, element_bytes, ranks, sequence;
};

/// An event with all of its args that any importer reads. Texts are valid during the call only, but
/// for those of the thread.
struct Event {
  std::size_t line = 0;    ///< its place among all events, from 0
  std::size_t offset = 0;  ///< in the file
  std::string_view name{}, phase{}, category{};
  std::string_view process{}, thread{};  ///< as written; valid as long as the file's text
  std::optional<Duration> start{}, duration{};

  std::optional<std::int64_t> record_function_id{}, external_id{}, sequence{};  ///< of a call
  std::optional<std::int64_t> index{};        ///< in the profiler's own order: "Ev Idx"
  std::optional<std::int64_t> correlation{};  ///< of a launch and of what it launched
  std::optional<std::int64_t> device{}, stream{}, bytes{};  ///< of work on a GPU
  std::optional<std::int64_t> allocated{}, device_type{};   ///< of [memory]: "Bytes", "Device Type"
  std::optional<std::int64_t> address{};                    ///< of [memory]: "Addr"
  std::optional<Communication> communication{};             ///< where it has a "Collective name"

  /// Whether it has a time and, if it `lasts`, a duration. If not, that is a mistake of `file`.
  bool is_timed(JsonFile& file, bool lasts = true) const;
};

/// What a file says beside its events.
struct FileFacts {
  std::string device;                ///< the first that the file describes; "" if none
  std::optional<std::int64_t> rank;  ///< of the process in its job
};

/// The format: {"traceEvents": [...]}, or the list alone (the profiler without Kineto). An event
/// has name, ph, cat, pid, tid, ts and dur; ts and dur are in microseconds and may have a fraction.
/// Calls `use` with each event, in the order of the file. The mistakes of `file` are thrown at the
/// end; it is one if the file has no list of events.
/// Source: libkineto/src/output_json.cpp, torch/csrc/distributed/c10d/ParamCommsUtils.hpp for the
/// args of collectives, and files of several GPUs.
FileFacts read_events(JsonFile& file, const std::function<void(const Event&)>& use);

/// Numbers of threads, from 0, in the order in which they are asked for.
class ThreadNumbers {
 public:
  std::size_t of(const Event& event) {
    return numbers_.emplace(std::pair(event.process, event.thread), numbers_.size()).first->second;
  }
  std::size_t size() const { return numbers_.size(); }

 private:
  std::map<std::pair<std::string_view, std::string_view>, std::size_t> numbers_;
};

/// Categories: a call of an operator, or of what the user named; a call of the driver, as CUDA, HIP
/// and others name them; work on a GPU.
bool is_call(std::string_view category);
bool is_driver_call(std::string_view category);
bool is_device_work(std::string_view category);

}  // namespace baechi::kineto
