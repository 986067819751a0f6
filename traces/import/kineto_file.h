/// A file of PyTorch's profiler (Kineto, a Chrome trace), event by event.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

#include "sim/units.h"
#include "traces/format/json.h"

namespace baechi {

/// What all events have. Texts are valid during the call only, but for those of the thread.
struct KinetoEvent {
  std::size_t offset = 0;  ///< in the file
  std::string_view name, phase, category;
  std::string_view process, thread;  ///< as written; valid as long as the file's text
  std::optional<Duration> start, duration;
};

struct KinetoFile {
  std::string device;                ///< the first that the file describes; "" if none
  std::optional<std::int64_t> rank;  ///< of the process in its job
};

/// The format: {"traceEvents": [...]}, or the list alone (the profiler without Kineto). An event
/// has name, ph, cat, pid, tid, ts and dur; ts and dur are in microseconds and may have a fraction.
/// Calls `event` for each event, in the order of the file, and before it `argument` for each of the
/// event's args. The mistakes of `file` are thrown at the end; it is one if the file has no list of
/// events.
/// Source: libkineto/src/output_json.cpp, and files of several GPUs.
KinetoFile read_kineto_file(JsonFile& file,
                            const std::function<void(std::string_view key, Json)>& argument,
                            const std::function<void(const KinetoEvent&)>& event);

/// Categories: a call of the driver, as CUDA, HIP and others name them; work on a GPU.
bool is_driver_call(std::string_view category);
bool is_device_work(std::string_view category);

/// A time written in microseconds, exact to the nanosecond: a double is too coarse for times
/// counted from 1970. Nothing if `text` is none, or is over 146 years.
std::optional<Duration> exact_time(std::string_view text);

}  // namespace baechi
