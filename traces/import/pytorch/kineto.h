/// Reads a Kineto or Chrome trace of PyTorch's profiler: when each call ran, what it launched on a
/// GPU, and what was allocated; without tensors.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/units.h"
#include "traces/importer.h"

namespace baechi::pytorch {

/// A call as the profiler recorded it. All times of a file have the same, arbitrary, origin.
struct HostEvent {
  std::string name;
  std::size_t thread = 0;  ///< index of the thread, below Kineto::num_threads
  Duration start{}, duration{};
  std::optional<std::int64_t> record_function_id, external_id, sequence;
  /// Index of the innermost call of the same thread that encloses this one.
  std::optional<std::size_t> parent{};
  /// Time of the kernels, copies and fills that the call itself launched, without its children's.
  Duration device{};
  Duration end() const { return start + duration; }
};

/// An allocation, or a release of memory.
struct MemoryEvent {
  Duration at{};
  std::size_t line = 0;    ///< index of the event in its file, from 0
  std::int64_t bytes = 0;  ///< negative for a release
  bool on_device = false;  ///< in a device's memory; else in the host's
  std::optional<std::int64_t> address{};
};

struct Kineto {
  std::vector<HostEvent> calls;  ///< by thread, then by start, a parent before its children
  std::size_t num_threads = 0;
  std::vector<MemoryEvent> memory;  ///< sorted by time
  std::string device;               ///< "NVIDIA A100-PG509-200"; "" if not stated
  std::size_t device_events = 0;    ///< number of kernels, copies and fills
  Duration device_time{};           ///< sum of their times
  /// Number of device events that no recorded call launched: the file does not say where they were
  /// launched, or it was outside of any call.
  std::size_t launched_by_none = 0;
  std::vector<std::size_t> line;  ///< [calls] index of the call's event in the file, from 0
};

/// Throws InputError with every mistake by line and column.
Kineto read_kineto(TextFile& file);

}  // namespace baechi::pytorch
