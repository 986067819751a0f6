/// One training step of a recording as ops of the host and of the streams, with their dependencies:
/// the calls that enclose each call, the host's timeline cut into pieces, lanes, and the work that
/// streams have run.
#pragma once
#include "sim/graph/op_graph.h"
#include "traces/import/kineto/recording.h"

namespace baechi::kineto {

/// An interval [start, end) of a recording.
struct Window {
  std::string name;  ///< "ProfilerStep#3", or a description
  Duration start{}, end{};
  Duration host_end = Duration::max();  ///< end of the host's part
  bool holds(Duration t) const { return start <= t && t < end; }
};

enum class Level : std::uint8_t { kernel, op };
constexpr auto names_of(Level) {
  return std::to_array<Named<Level>>({{Level::kernel, "kernel"}, {Level::op, "op"}});
}

/// A collective as one rank recorded it.
struct RecordedCollective {
  CollectiveKind kind{};
  Bytes bytes{};
  std::uint32_t ranks = 0;
  std::string group;
  std::optional<std::int64_t> sequence;
};

struct StepOp {
  std::string name, kind, lane, module{};
  Duration compute{};
  Bytes bytes{};  ///< of a copy
  Phase phase = Phase::forward;
  std::optional<std::int64_t> device{};  ///< the GPU; nullopt: the host
  std::vector<std::size_t> after;        ///< indices of the ops that it waits for
  std::optional<RecordedCollective> collective{};
};

struct Step {
  std::vector<StepOp> ops;
  Duration recorded{};  ///< period of steps
  Duration replayed{};  ///< critical path of the ops, with recorded times of collectives
  Duration idle{};      ///< of GPUs, without a recorded cause: time of Idle ops
  std::size_t work = 0, joined = 0;  ///< kernels, copies and fills; those with a recorded launch
  Duration work_time{}, joined_time{}, gaps{};
  std::size_t hand_overs = 0;  ///< times that a thread continues after another one
  std::size_t unsized = 0;     ///< NCCL kernels of unknown size, which are timed ops
};

struct StepOptions {
  Level level = Level::kernel;
  bool host = true;         ///< whether the host's time is modelled as ops
  bool collectives = true;  ///< whether NCCL kernels are collectives rather than timed ops
};

Step make_step(const Recording& recording, const Window& window, const StepOptions& options);

inline constexpr std::size_t none = ~std::size_t{0};

struct CallContext {
  std::size_t op = none;             ///< the outermost op; the call itself if there is none
  std::size_t scope = none;          ///< the innermost record_function of the user, or none
  std::size_t communication = none;  ///< the innermost call that describes a collective, or none
  Phase phase = Phase::forward;
  bool in_op = false;  ///< whether the call is an op or within one
};

/// [recording.calls] A call counts as enclosing itself.
std::vector<CallContext> call_contexts(const Recording& recording);

/// Path of the user's innermost 64 record_functions contexts call `i`, outermost first:
/// "encoder.layer1".
std::string scopes(const Recording& recording, const std::vector<CallContext>& contexts,
                   std::size_t i);

/// Whether the call is a frame around operators rather than an operator.
bool is_frame(const Call& call);

/// The time of a thread up to its next launch or wait. Without a GPU a piece is an op.
struct Piece {
  std::vector<std::size_t> calls;  ///< indices of Recording::calls: its driver calls, in order
  std::size_t thread = 0;
  Duration start{}, end{};     ///< of the calls, without the gap before them
  std::size_t outermost = 0;   ///< the outermost op that contains the calls, or the call itself
  std::string op{}, module{};  ///< "conv2d"; "VGG_0.Conv2d_0", "" if not recorded
  Phase phase = Phase::forward;
};

/// Indices of Recording::work by the correlation of their launch.
using Launched = std::unordered_map<std::int64_t, std::vector<std::size_t>>;
Launched by_correlation(const Recording& recording);

/// Whether the driver call blocks until GPU work has ended; records an event; waits for one.
bool waits(const Call& call);
bool records_event(const Call& call);
bool awaits_event(const Call& call);

/// The pieces that begin before the end of `window`, by start: work launched before the window may
/// run in it. Without a GPU, the pieces of the window only.
std::vector<Piece> host_pieces(const Recording& recording, const std::vector<CallContext>& contexts,
                               const Window& window, const Launched& launched, Level level);

/// Maps the threads and streams of a recording to lanes. Threads are "host", "host 2", ..., the one
/// with most calls first; without a GPU, "compute", "thread 2", ... Streams of a device are
/// "compute" (the busiest), "comm" (mostly NCCL kernels), "copy" (mostly copies), or "stream 21". A
/// graph has at most 64 lanes, so threads and streams beyond 20 share one.
class Lanes {
 public:
  Lanes(const Recording& recording, const Window& window);
  const std::string& of_thread(std::size_t thread) const { return threads_.at(thread); }
  const std::string& of_stream(std::int64_t device, std::int64_t stream) const {
    return streams_.at({device, stream});
  }
  std::size_t main_thread() const { return main_thread_; }

 private:
  std::map<std::size_t, std::string> threads_;
  std::map<std::pair<std::int64_t, std::int64_t>, std::string> streams_;
  std::size_t main_thread_ = 0;
};

struct Stream {
  std::size_t last = none;   ///< index of its last op
  std::size_t piece = none;  ///< number of the host piece that launched it
  Duration end{};            ///< of its last work
  std::vector<std::pair<Duration, std::size_t>> ran{};       ///< recorded ends, ascending, and ops
  std::vector<std::pair<Duration, std::size_t>> launched{};  ///< starts of launches, and ops

  /// Recorded end and op of the last work that ended by `at`.
  std::optional<std::pair<Duration, std::size_t>> last_ended(Duration at) const;
};

class Streams {
 public:
  Stream& of(const DeviceWork& work) { return streams_[{work.device, work.stream}]; }
  const Stream* find(const DeviceWork& work) const { return find(work.device, work.stream); }
  const Stream* find(std::int64_t device, std::int64_t number) const {
    const auto found = streams_.find({device, number});
    return found == streams_.end() ? nullptr : &found->second;
  }
  /// Recorded end and op of the last work of each stream that ended by `at`, except of stream
  /// `but`.
  std::vector<std::pair<Duration, std::size_t>> ended(Duration at,
                                                      const Stream* but = nullptr) const;

 private:
  std::map<std::pair<std::int64_t, std::int64_t>, Stream> streams_;  // device, number
};

}  // namespace baechi::kineto
