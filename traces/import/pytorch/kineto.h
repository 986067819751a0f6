/// Reads a Kineto or Chrome trace of PyTorch's profiler: when calls ran, which GPU work they
/// launched, and allocations; without tensors.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/units.h"
#include "traces/importer.h"

namespace baechi::pytorch {

/// A recorded call. All times of a file have the same arbitrary origin.
struct HostEvent {
  std::string name;
  std::size_t thread = 0;  ///< index of the thread, below Kineto::num_threads
  Duration start{}, duration{};
  std::optional<std::int64_t> record_function_id, external_id, sequence;
  /// Index of the innermost call of the same thread that encloses this one.
  std::optional<std::size_t> parent{};
  /// Time of the kernels, copies and fills that the call launched, without its children's.
  Duration device{};
  Duration end() const { return start + duration; }
};

/// An allocation, or a release of memory.
struct MemoryEvent {
  Duration at{};
  std::size_t line = 0;    ///< index of the event in its file, from 0
  std::int64_t bytes = 0;  ///< negative for a release
  bool on_device = false;  ///< in device memory; else in host memory
  std::optional<std::int64_t> address{};
};

struct Kineto {
  std::vector<HostEvent> calls;  ///< by thread, then start, parents before children
  std::size_t num_threads = 0;
  std::vector<MemoryEvent> memory;  ///< sorted by time
  std::string device;               ///< "NVIDIA A100-PG509-200"; "" if not stated
  std::size_t device_events = 0;    ///< number of kernels, copies and fills
  Duration device_time{};           ///< sum of their times
  /// Number of device events without a recorded launch, or launched outside any call.
  std::size_t without_launch = 0;
  std::vector<std::size_t> line;  ///< [calls] index of the call's event in the file, from 0
};

/// Throws InputError with all mistakes by line and column.
Kineto read_kineto(TextFile& file);

}  // namespace baechi::pytorch
