/// A recording of PyTorch's profiler (Kineto, a Chrome trace): which calls ran when on the host's
/// threads, and which work on the streams of GPUs.
#pragma once
#include "sim/graph/collective.h"
#include "traces/import/kineto/events.h"

namespace baechi {
class TextFile;
}

namespace baechi::kineto {

enum class CallKind : std::uint8_t {
  op,          ///< an operator, or autograd's frame around operators
  annotation,  ///< record_function: ProfilerStep#3, Optimizer.step#Adam.step
  module,      ///< nn.Module's forward, by name
  runtime,     ///< a driver call
  other,       ///< not used
};

struct Call {
  std::string name;
  CallKind kind = CallKind::op;
  std::size_t thread = 0;  ///< below Recording::num_threads
  Duration start{}, duration{};
  std::optional<std::int64_t> correlation;
  std::optional<Communication> communication{};
  /// Index of the innermost op, annotation or driver call that contains it, on the same thread.
  std::optional<std::size_t> parent{};
  Duration end() const { return start + duration; }
};

enum class WorkKind : std::uint8_t { kernel, copy, fill };

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

/// Work recorded to end after the next work of its stream began, and how much was cut off it: a
/// stream runs one after the other.
struct Overrun {
  std::size_t work = 0;  ///< index of Recording::work
  Duration cut{};
};

/// Shortens such work. `all`: with device, stream, start and duration.
template <class Work>
std::vector<Overrun> cut_overruns(std::vector<Work>& all) {
  constexpr Duration rounded = std::chrono::microseconds(2);  // a start and a duration
  std::vector<Overrun> overruns;
  std::map<std::pair<std::int64_t, std::int64_t>, std::vector<std::size_t>> streams;
  for (std::size_t i = 0; i < all.size(); ++i) streams[{all[i].device, all[i].stream}].push_back(i);
  for (auto& [stream, order] : streams) {
    std::ranges::stable_sort(order, {}, [&](std::size_t i) { return all[i].start; });
    for (std::size_t k = 1; k < order.size(); ++k) {
      Work& work = all[order[k - 1]];
      const Duration beyond = work.start + work.duration - all[order[k]].start;
      if (beyond <= rounded) continue;
      work.duration -= beyond;
      overruns.push_back({order[k - 1], beyond});
    }
  }
  return overruns;
}

/// A wait that CUPTI recorded: of a stream for an event ("Stream Wait Event"), or of the host for a
/// stream, an event or all work ("Stream Sync", "Event Sync", "Context Sync").
struct RecordedWait {
  std::int64_t device = 0;
  std::optional<std::int64_t> stream;          ///< that waits; of "Stream Sync": that is awaited
  std::optional<std::int64_t> awaited_stream;  ///< on which the event was recorded
  std::optional<std::int64_t> awaited_record;  ///< correlation of the call that recorded the event
  std::optional<std::int64_t> correlation;     ///< of the call that waits
  Duration start{};
  bool of_stream = false;  ///< a "Stream Wait Event"
};

struct Recording {
  std::vector<Call> calls;    ///< by thread, then start, parents before children; without modules
  std::vector<Call> modules;  ///< by start
  std::vector<DeviceWork> work;     ///< as recorded; those of a stream do not overlap
  std::vector<RecordedWait> waits;  ///< by start
  std::vector<Overrun> overruns;    ///< work that was recorded as longer
  std::string device;               ///< "NVIDIA A100-PG509-200"; "" if not stated
  bool of_simulation = false;       ///< a timeline of this program
};

/// Throws InputError with all mistakes by line and column.
Recording read_recording(TextFile& file);

/// The collective of an NCCL kernel; nullopt for other kernels, and for sends and barriers.
std::optional<CollectiveKind> collective_kind(const DeviceWork& work);
bool is_nccl(const DeviceWork& work);

bool looks_like_kineto(std::string_view beginning);

}  // namespace baechi::kineto
