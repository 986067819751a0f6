/// Dataflow analysis of a recorded step: the inputs and outputs of each op, by storage.
#pragma once
#include "traces/import/pytorch/execution_trace.h"

namespace baechi::pytorch {

/// The elements of a storage that a view covers: sorted, disjoint ranges [first, second).
using Elements = std::vector<std::pair<std::int64_t, std::int64_t>>;

/// The calls in the subtree of `call` that become ops, in order: the outermost calls with one
/// kernel, those that autograd differentiates as a unit, and those that read a tensor which no
/// inner call takes.
/// - Fills and copies do not count as kernels.
/// - Views, allocations and calls that return Python values do not become ops.
/// - A collective is one op with all inner calls; so is a Triton kernel.
/// - An optimizer's call on lists of tensors is split into one child call per tensor, which are
///   added to `trace`; `split` counts these calls.
std::vector<Call*> cut(ExecutionTrace& trace, Call& call, std::size_t& split);

/// The op's kind: the call's name, or the collective's ("all_reduce").
std::string kind_of(const Call& call);

struct RecordedOp;
struct Storage;

/// An output: what one op writes to one storage. A later write in place is another output.
struct Contents {
  RecordedOp* producer = nullptr;
  Storage* storage = nullptr;
  std::int64_t bytes = 0;
  bool in_place = false;   ///< the storage existed before the op
  bool reference = false;  ///< its bytes are counted in other contents of the storage
  std::vector<RecordedOp*> readers;
};

/// Memory that holds one or more tensors.
struct Storage {
  std::int64_t bytes = 0;
  bool external =
      false;           ///< allocated before the step: parameter, optimizer state, buffer or input
  bool state = false;  ///< external, and counted in an op's persistent bytes
  std::vector<std::int64_t> shape;  ///< of the first tensor read (external storages only)
  std::string role;                 ///< argument name in the first call that has one
  Contents* contents = nullptr;     ///< the last write of the whole storage, or null
  std::vector<std::pair<Elements, Contents*>> parts;  ///< later writes of parts
  /// Elements of as_strided views, by the view's offset and number of elements.
  std::map<std::pair<std::int64_t, std::int64_t>, Elements> views;
};

/// An op of the graph: its recorded calls, inputs and outputs.
struct RecordedOp {
  std::string kind, name;
  Phase phase = Phase::forward;
  std::vector<const Call*> calls;  ///< empty for an input of the step
  std::size_t root = 0;            ///< index into Dataflow::roots
  std::vector<Contents*> reads, writes;
  std::vector<Storage*> external;  ///< storages whose contents from before the step it reads
  std::vector<std::string> role;   ///< [external] argument name in the op's schema
  std::vector<Storage*> written;   ///< storages that it writes
  std::vector<Storage*> touched;   ///< storages that it reads or writes
  std::vector<Storage*> results;   ///< storages of the returned tensors
  RecordedOp* forward = nullptr;   ///< of a backward op: the forward op that it differentiates
  RecordedOp* owner = nullptr;     ///< of an update: the op that holds the parameter
  bool collective = false;
  bool side_effect = false;     ///< its results are not read, but it changes external memory
  bool differentiates = false;  ///< of a backward op: `forward` is by autograd's sequence number
  std::int64_t persistent = 0;  ///< bytes
  std::vector<RecordedOp*> labels;  ///< its colocation labels are the names of these ops
  std::vector<RecordedOp*> before;  ///< control edges to these ops
  std::int64_t scratch = 0;  ///< of an update: bytes allocated by its calls on lists of tensors
  std::size_t position = 0;  ///< index among the ops of the graph
};

/// The ops of a step in call order, with their storages and outputs. Pointers into the deques stay
/// valid.
struct Dataflow {
  std::deque<RecordedOp> arena;
  std::deque<Storage> storages;
  std::deque<Contents> contents;
  std::vector<RecordedOp*> ops;
  /// [ExecutionTrace::calls] The op that the call became; the op whose output the call views; or
  /// null.
  std::vector<RecordedOp*> op_of_call, source_of_call;
  std::vector<std::pair<Call*, Phase>> roots;
  std::size_t collectives = 0, triton = 0;
  std::size_t split = 0;  ///< number of calls on lists of tensors that were split
};

/// The phase of each outermost call of a step:
/// - update: the optimizer's calls;
/// - forward: up to the last call that advances autograd's sequence number; all others if autograd
///   did not run;
/// - backward: the others.
std::vector<std::pair<Call*, Phase>> phases(const std::vector<Call*>& roots);

/// The ops of the calls under `roots`, with their inputs and outputs. Adds the calls that cut()
/// splits to `trace`.
Dataflow trace_dataflow(ExecutionTrace& trace, std::vector<std::pair<Call*, Phase>> roots);

/// Dead code elimination: sets Contents::readers and removes ops whose results are not read, except
/// ops of the last phase, collectives, and writes to memory from before the step. Returns the
/// removed ops.
std::vector<RecordedOp*> drop_unread(Dataflow& flow);

/// The module path of the op's first call, "layer1.0.conv1"; "" if unknown. A backward op has its
/// forward op's module, an update that of the op that holds the parameter. Modules are frames of
/// torch.profiler.record_function, such as `with record_function("layer1.0.conv1")` around a
/// forward call. A name that begins with that of the enclosing frame replaces it ("layer1.0.conv1"
/// in "layer1.0"); others are appended ("conv1" in "layer1.0").
std::string module_of(const RecordedOp& op);

}  // namespace baechi::pytorch
