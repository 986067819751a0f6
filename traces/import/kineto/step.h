/// One training step of a recording as ops: what the host does between launches, and what the
/// streams run, with what each waits for.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "sim/graph/op_graph.h"
#include "traces/import/kineto/recording.h"

namespace baechi::kineto {

/// A part of a recording, [start, end).
struct Window {
  std::string name;  ///< "ProfilerStep#3", or a text of our own
  Duration start{}, end{};
  Duration host_end = Duration::max();  ///< what the host does from then on is no part of it
  bool holds(Duration t) const { return start <= t && t < end; }
};

/// The steps of a recording as the host takes them, in order: told by ProfilerStep#..., else by the
/// ends of the optimizer's calls, else one window of all that was recorded.
std::vector<Window> steps_of(const Recording& recording);
/// Index of the last step with nine in ten of the calls of the driver (without a GPU: of all calls)
/// of the median step.
std::size_t last_whole(const std::vector<Window>& steps, const Recording& recording);
/// Step `k` between two moments at which the host has begun a step and the GPUs have ended what was
/// launched before: they may lag behind the host by more than a step. Its length is the period of
/// steps. At its beginning a lagging GPU has work that the host launched in an earlier step.
Window period_of(const std::vector<Window>& steps, std::size_t k, const Recording& recording);
/// The last step up to `k` whose period the recording's steps hold, host and GPUs; else `k`.
std::size_t last_held(const std::vector<Window>& steps, std::size_t k, const Recording& recording);

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
  Bytes bytes{};  ///< that a copy moves
  Phase phase = Phase::forward;
  std::optional<std::int64_t> device{};  ///< the GPU's number; nothing: the host
  std::vector<std::size_t> after;        ///< indices of ops that it waits for, all of the same step
  std::optional<RecordedCollective> collective{};
};

struct Step {
  std::vector<StepOp> ops;
  Duration recorded{};  ///< the period of steps
  Duration replayed{};  ///< the step's ops one after the other, with collectives as recorded
  Duration idle{};      ///< of GPUs, for no reason that the recording shows: in ops of their own
  std::size_t work = 0, joined = 0;  ///< kernels, copies and fills; those with a known launch
  Duration work_time{}, joined_time{}, gaps{};
  std::size_t hand_overs = 0;  ///< times that a thread goes on where another one stopped
  std::size_t unsized = 0;     ///< NCCL's kernels without a known size, kept as timed ops
};

struct StepOptions {
  Level level = Level::kernel;
  bool host = true;         ///< whether the host's time is in ops of its own
  bool collectives = true;  ///< whether NCCL's kernels are collectives rather than timed ops
};

Step make_step(const Recording& recording, const Window& window, const StepOptions& options);

}  // namespace baechi::kineto
