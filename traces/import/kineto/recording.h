/// A recording of PyTorch's profiler (Kineto, a Chrome trace) as it is: what ran when, on which
/// thread of the host and on which stream of a GPU.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "sim/graph/collective.h"
#include "sim/units.h"
#include "traces/import/kineto/events.h"

namespace baechi {
class TextFile;
}

namespace baechi::kineto {

enum class CallKind : std::uint8_t {
  op,          ///< an operator, or a frame of autograd around operators
  annotation,  ///< record_function: ProfilerStep#3, Optimizer.step#Adam.step
  module,      ///< nn.Module's forward, by name
  runtime,     ///< a call of the driver
  other,       ///< what is not read
};

/// A call on the host.
struct Call {
  std::string name;
  CallKind kind = CallKind::op;
  std::size_t thread = 0;  ///< below Recording::num_threads
  Duration start{}, duration{};
  std::optional<std::int64_t> correlation;
  std::optional<Communication> communication{};
  /// Index of the innermost op, annotation or call of the driver around it, on the same thread.
  std::optional<std::size_t> parent{};
  Duration end() const { return start + duration; }
};

enum class WorkKind : std::uint8_t { kernel, copy, fill };

/// Work on a stream of a GPU.
struct DeviceWork {
  std::string name;
  WorkKind kind = WorkKind::kernel;
  std::int64_t device = 0, stream = 0;
  Duration start{}, duration{};
  Bytes bytes{};  ///< of a copy or fill
  std::optional<std::int64_t> correlation;
  std::optional<Communication> communication{};
  Duration end() const { return start + duration; }
};

struct Recording {
  std::vector<Call> calls;    ///< by thread, then start, a parent before its children; no modules
  std::vector<Call> modules;  ///< by start
  std::vector<DeviceWork> work;
  std::size_t num_threads = 0;
  std::string device;                ///< "NVIDIA A100-PG509-200"; "" if not stated
  std::optional<std::int64_t> rank;  ///< of the process in its job
};

/// Throws InputError with every mistake by line and column.
Recording read_recording(TextFile& file);

/// Where a kernel is NCCL's: what it does together with other ranks. Nothing for other kernels, and
/// for what is no collective here (send, barrier).
std::optional<CollectiveKind> collective_kind(const DeviceWork& work);
bool is_nccl(const DeviceWork& work);

bool looks_like_kineto(std::string_view beginning);

}  // namespace baechi::kineto
