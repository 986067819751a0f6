/// One training step of a recording as ops of the host and of the streams, with their dependencies.
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

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

}  // namespace baechi::kineto
