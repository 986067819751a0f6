/// Times and memory of a recorded step's ops, from recorded calls and allocations.
#pragma once
#include "traces/import/pytorch/join.h"
#include "traces/import/pytorch/training_state.h"

namespace baechi::pytorch {

/// Times and temporary bytes of ops, from one or more recorded steps.
class Times {
 public:
  /// Reads the files `kineto`, each a step of the same run as `trace`, which was read from `path`.
  /// An op's time is the median of the steps; memory events are those of the first. Throws
  /// InputError if more than half of the files do not join.
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

enum class Workspace : std::uint8_t {
  call,  ///< also memory that the enclosing calls hold and the graph has freed
  op,    ///< what the op allocates
};
constexpr auto names_of(Workspace) {
  return std::to_array<Named<Workspace>>({{Workspace::call, "call"}, {Workspace::op, "op"}});
}

/// PyTorch frees a storage as a whole: if ops wrote parts of a storage, such as the gates of a
/// recurrent cell, the last reader of any part becomes a reader of each part.
void hold_parts(Dataflow& flow);

/// Temporary bytes. [flow.ops] Workspace::op: peak while the op runs, minus the bytes before it,
/// minus its outputs. Workspace::call: peak while the op runs, minus the bytes before the outermost
/// operator or autograd function that encloses it, minus the growth of the graph's own tensors
/// since then. (PyTorch holds the inputs and outputs of an operator or autograd function until it
/// ends; the graph holds a tensor until its last reader ends.)
/// If updates run after the backward pass, an update's memory is counted from the start of the
/// optimizer's call, because Python variables hold its allocations until a later update.
std::vector<std::int64_t> workspaces(const Dataflow& flow, const Times& times, Workspace workspace,
                                     UpdateOrder optimizer);

/// The op's outputs that are read, with the results of its call first. If none is read (at the end
/// of the step): all outputs except those in persistent memory, or none for an update.
std::vector<const Contents*> outputs(const RecordedOp& op);

/// The outermost operator or autograd function that encloses `call`; `call` itself if there is
/// none.
const Call& outermost(const Call& call);

/// Whether the step allocates the bytes: not external, and not a reference.
bool is_new(const Contents& c);

/// Makes writes in place share memory, where modules are known (a module's ops run on one device).
/// - An op that writes a whole storage reads its previous contents as a reference. The previous
///   contents are live until the op before it in its module or in theirs.
/// - Writes of parts are references; the whole contents are live until the last read of any part.
void share_in_place(Dataflow& flow);

/// The op during which a tensor's memory was freed becomes a reader of the tensor, which Python
/// variables or autograd functions kept alive after its last read. Memory that is not a tensor's
/// and outlives the outermost call of its op becomes an extra output. The new reader is in a module
/// that already uses the tensor, so that no transfer is added.
void hold_until_freed(Dataflow& flow, const Times& times);

}  // namespace baechi::pytorch
