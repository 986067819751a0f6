/// Reads a Kineto or Chrome trace of PyTorch's profiler, and joins it with an execution trace of
/// the same recording: the Kineto event of each call.
#pragma once
#include "traces/import/pytorch/execution_trace.h"

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
  std::size_t overruns = 0;         ///< that ended after the next one of their stream began
  Duration cut{};                   ///< what was cut off these
  /// Number of device events without a recorded launch, or launched outside any call.
  std::size_t without_launch = 0;
  std::vector<std::size_t> line;  ///< [calls] index of the call's event in the file, from 0
};

/// Throws InputError with all mistakes by line and column.
Kineto read_kineto(TextFile& file);

/// [sequence] The position of each name; nullopt if it is missing.
using Alignment = std::vector<std::optional<std::size_t>>;

/// The alignments of `calls` in `events` with the fewest gaps and, among these, the most matches;
/// in order, at most the last 64; none if there are over `most_gaps` gaps. A gap is a call without
/// an event, or an event without a call between the first and the last matched event. Ties: an
/// event without a call comes first. Method: Myers, An O(ND) difference algorithm and its
/// variations (1986), with free ends in `events`. Time O(events x gaps), memory O(events + gaps^2).
std::vector<Alignment> align(std::span<const std::uint32_t> calls,
                             std::span<const std::uint32_t> events, std::size_t most_gaps);

struct Join {
  std::vector<std::optional<std::size_t>> event;  ///< [calls] index into Kineto::calls
  std::string key;           ///< "Record function id", "External id" or "order of names"
  std::size_t matched = 0;   ///< number of calls with an event
  std::size_t repeated = 1;  ///< number of occurrences of these names in this order
  /// If `repeated` > 1: whether autograd's sequence numbers chose the occurrence; else the last one
  /// is used.
  bool numbers_agreed = false;
};

/// Joins by the first key that joins enough calls:
/// 1. "Record function id" and equal names: 90 % of the calls,
/// 2. "External id" and equal names: 90 %,
/// 3. the order of names on each thread: 100 %,
/// 4. as 3, without only children that have their parent's name, which the profiler without Kineto
/// does not export. They get the event of their parent: 100 %,
/// 5. as 3 or 4, with gaps, whichever joins more: 99 %.
/// Throws InputError, with the matches of each key, if no key suffices: the files are of two runs.
Join join(const ExecutionTrace& trace, const Kineto& kineto, const std::string& trace_path,
          const std::string& kineto_path);

/// When a call ran, and the GPU time of its kernels.
struct CallTime {
  bool known = false;
  /// `device`: total time of the kernels, copies and fills that were launched in the call.
  Duration start{}, end{}, device{};
  std::size_t line = 0;  ///< index of the call's event in the Kineto file, from 0
};

/// [calls]
std::vector<CallTime> call_times(const ExecutionTrace& trace, const Kineto& kineto,
                                 const Join& join);

/// The calls that the profiler exports.
enum class ExportedCalls : std::uint8_t {
  all,
  /// Without only children that have their parent's name: the profiler without Kineto omits them.
  /// They get the event of their parent.
  without_only_children,
};

/// Joins the calls of each thread with the thread and position in the recording where the longest
/// prefix of the calls matches. Ties: most equal autograd sequence numbers, then the last position,
/// when the run is warm.
Join by_names(const ExecutionTrace& trace, const Kineto& kineto, ExportedCalls exported);

/// As by_names(), if some calls or events are missing: uses the alignment with the fewest gaps
/// (align.h), at most one per 25 calls. Calls that begin in the same microsecond as a neighbour of
/// a gap may be in any order.
Join by_names_with_gaps(const ExecutionTrace& trace, const Kineto& kineto, ExportedCalls exported);

}  // namespace baechi::pytorch
