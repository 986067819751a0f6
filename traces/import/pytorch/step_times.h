#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "traces/import/pytorch/dataflow.h"
#include "traces/import/pytorch/join.h"

namespace baechi::pytorch {

/// Times and temporary bytes of ops, from one or more recorded steps.
class Times {
 public:
  /// Reads the files `kineto`, each a step of the same run as `trace`, which was read from `path`.
  /// An op's time is the median of the steps; memory events are those of the first. Throws
  /// InputError if half of the files or more do not join.
  Times(const ExecutionTrace& trace, const std::string& path, std::span<TextFile* const> kineto);

  bool known() const { return !steps_.empty(); }
  bool on_gpu() const { return known() && kineto().device_events > 0; }
  Duration compute(const RecordedOp& op) const;
  bool measured(const RecordedOp& op) const;
  /// On a CPU, distributes the overhead of the outermost operator or autograd function to its ops:
  /// time before an op is added to it, time after the last op to the last. The time of a call
  /// without an op, such as a view, is added to the next op.
  void add_overhead(const Dataflow& flow);

  /// A recorded allocation: event `first` allocates it, event `end` frees it (num_events(): none
  /// does). Events without an address are ignored.
  struct Block {
    std::int64_t bytes = 0;
    std::size_t first = 0, end = 0;
  };
  std::vector<Block> blocks() const;
  std::size_t num_events() const { return memory_.size(); }
  /// The memory events [first, second) while the op runs; nullopt if unknown.
  std::optional<std::pair<std::size_t, std::size_t>> events(const RecordedOp& op) const;
  /// The recorded bytes that are allocated when `call` begins.
  std::optional<std::int64_t> live_before(const Call& call) const;
  /// Peak of allocated bytes while the op runs, minus the bytes at the start of `since`, which is
  /// the op's first call or encloses it. nullopt for a part of a call, or if unknown.
  std::optional<std::int64_t> peak(const RecordedOp& op, const Call& since) const;
  /// The peak minus the outputs that the op allocated; at least 0, and 0 if unknown.
  std::int64_t temporary(const RecordedOp& op, const Call& since) const;
  void note(const Dataflow& flow, std::size_t calls, Trace& trace) const;
  /// Warns if the ops' total differs from `step`, the time of a step without profiler, by over 5 %.
  /// Without a GPU, the ops then add up to `step`: each includes the time since the previous op,
  /// minus an equal overhead per recorded call.
  void fill(const Dataflow& flow, Duration step, Trace& trace);
  const Kineto& kineto() const { return steps_.front().kineto; }

 private:
  struct Step {
    Kineto kineto;
    Join join;
    std::vector<CallTime> calls;
    std::vector<Duration> overhead{};  ///< [calls] overhead of enclosing calls; may be empty
  };
  /// When a call of an op runs, including the overhead of its enclosing calls.
  struct Span {
    Duration start, end;
    const Call* call;
    std::size_t op;  ///< index into Dataflow::ops
  };
  /// Time of an op in a step, including the time since the previous op.
  struct OpShare {
    double ns = 0.0;
    double events = 0.0;  ///< recorded calls in that time
  };

  static bool measured(const RecordedOp& op, const Step& step);
  Duration compute(const RecordedOp& op, const Step& step) const;
  std::vector<Span> spans(const Dataflow& flow, const Step& step) const;
  std::size_t first_event(const CallTime& t) const;
  std::vector<OpShare> taken(const Dataflow& flow, const Step& step) const;

  std::vector<Step> steps_;
  bool with_overhead_ = false;                    // add_overhead()
  std::size_t left_out_ = 0;                      // number of files that do not join
  std::vector<MemoryEvent> memory_;               // of the device that ran the step, by time
  std::vector<std::int64_t> live_;                // [memory_] allocated bytes after the event
  std::map<const RecordedOp*, Duration> filled_;  // never iterated
};

}  // namespace baechi::pytorch
