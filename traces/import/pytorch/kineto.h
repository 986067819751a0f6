/// A Kineto or Chrome trace of PyTorch's profiler: when each call ran, what it launched on a GPU,
/// and what was allocated. It knows no tensors.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/units.h"
#include "traces/importer.h"

namespace baechi::pytorch {

/// A call as the profiler saw it. Times count from the same, arbitrary, beginning.
struct HostEvent {
  std::string name;
  std::size_t thread = 0;  ///< below Kineto::num_threads
  Duration start{}, duration{};
  std::optional<std::int64_t> record_function_id, external_id, sequence;
  std::optional<std::size_t> parent{};  ///< the innermost of its thread that encloses it
  Duration
      device{};  ///< of the kernels, copies and fills that it launched itself, not its children
  Duration end() const { return start + duration; }
};

/// An allocation; of a negative number of bytes, a release.
struct MemoryEvent {
  Duration at{};
  std::size_t line = 0;  ///< of the events of its file, from 0
  std::int64_t bytes = 0;
  bool on_device = false;  ///< not in the host's memory
};

struct Kineto {
  std::vector<HostEvent> calls;  ///< by thread, then by start, a parent before its children
  std::size_t num_threads = 0;
  std::vector<MemoryEvent> memory;  ///< by time
  std::string device;               ///< "NVIDIA A100-PG509-200"; "" if not stated
  std::size_t device_events = 0;    ///< kernels, copies and fills
  Duration device_time{};           ///< of those
  /// Of those that no recorded call launched: nothing says from where, or it was the host itself.
  std::size_t launched_by_none = 0;
  std::vector<std::size_t> line;  ///< [calls] of the events of the file, from 0
};

/// Throws InputError with every mistake by line and column.
Kineto read_kineto(TextFile& file);

bool looks_like_kineto(std::string_view beginning);

}  // namespace baechi::pytorch
