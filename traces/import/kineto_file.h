/// A file of PyTorch's profiler (Kineto), around its events.
#pragma once
#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "traces/format/json.h"

namespace baechi {

struct KinetoFile {
  std::string device;                ///< the first that the file describes; "" if none
  std::optional<std::int64_t> rank;  ///< of the process in its job
};

/// Calls `event` for each of the file's events, in their order. The mistakes of `file` are thrown
/// at the end; it is one if the file has no list of events.
KinetoFile read_kineto_file(JsonFile& file, const std::function<void(Json)>& event);

}  // namespace baechi
