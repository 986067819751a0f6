/// The times of a recorded step, and the ops' times and temporary bytes that follow from them.
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

/// The times of recorded steps, and the ops' times and temporary bytes that follow from them.
class Times {
 public:
  /// The times of `trace` in the files `kineto`, each a step of the same run; `path` is the trace's
  /// own file. An op takes the median of the steps; memory is told by the first. Less than half of
  /// the files may not join.
  Times(const ExecutionTrace& trace, const std::string& path, std::span<TextFile* const> kineto);

  bool known() const { return !steps_.empty(); }
  bool on_gpu() const { return known() && kineto().device_events > 0; }
  Duration compute(const RecordedOp& op) const;
  bool measured(const RecordedOp& op) const;
  /// On a processor an op then takes what the outermost operator or function of autograd around its
  /// call takes beside its other ops: what lies before an op goes to it, what is left behind the
  /// last op to that one. A call without an op, such as a view, goes to the op behind it.
  void take_calls(const Dataflow& flow);

  /// Memory that the recording saw allocated: event [Block::first] allocates it, [Block::end] frees
  /// it, or num_events() if none does. Only of events with an address.
  struct Block {
    std::int64_t bytes = 0;
    std::size_t first = 0, end = 0;
  };
  std::vector<Block> blocks() const;
  std::size_t num_events() const { return memory_.size(); }
  /// The events of memory while the op runs: [first, second). Nothing where they are not known.
  std::optional<std::pair<std::size_t, std::size_t>> events(const RecordedOp& op) const;
  /// The bytes allocated before `call` begins, as far as the recording saw them allocated.
  std::optional<std::int64_t> live_before(const Call& call) const;
  /// The peak of allocated bytes while the op runs, less the bytes allocated at the start of
  /// `since`, which is the op's first call or a call around it. Nothing for a part of a call, or
  /// where they are not known.
  std::optional<std::int64_t> peak(const RecordedOp& op, const Call& since) const;
  /// The peak, less the outputs that the op allocated; at least 0, and 0 where it is not known.
  std::int64_t temporary(const RecordedOp& op, const Call& since) const;
  void note(const Dataflow& flow, std::size_t calls, Trace& trace) const;
  /// Warns where the ops take 5 % more or less than `step`, the length of a step without profiler.
  /// Without a GPU the ops then take all of `step`: each the time since the op before it, too, less
  /// (or more) an equal time for each call that the profiler saw.
  void fill(const Dataflow& flow, Duration step, Trace& trace);
  const Kineto& kineto() const { return steps_.front().kineto; }

 private:
  struct Step {
    Kineto kineto;
    Join join;
    std::vector<CallTime> calls;
    std::vector<Duration> more{};  ///< [calls] what calls around it take for it; empty: nothing
  };
  /// When a call of an op runs, with what the calls around it take for it.
  struct Span {
    Duration start, end;
    const Call* call;
    std::size_t op;  ///< index into Dataflow::ops
  };
  /// What an op takes in a step, with the time since the op before it.
  struct Taken {
    double ns = 0.0;
    double events = 0.0;  ///< calls that the profiler saw in it
  };

  static bool measured(const RecordedOp& op, const Step& step);
  Duration compute(const RecordedOp& op, const Step& step) const;
  std::vector<Span> spans(const Dataflow& flow, const Step& step) const;
  std::size_t first_event(const CallTime& t) const;
  std::vector<Taken> taken(const Dataflow& flow, const Step& step) const;

  std::vector<Step> steps_;
  bool of_calls_ = false;            // take_calls()
  std::size_t left_out_ = 0;         // files that do not join
  std::vector<MemoryEvent> memory_;  // on the device that ran the step, by time
  std::vector<std::int64_t> live_;   // [memory_] bytes allocated after the event, since the first
  std::map<const RecordedOp*, Duration> filled_;  // looked up only
};

}  // namespace baechi::pytorch
