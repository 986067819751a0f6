/// Finds the inputs and outputs of each op of a step, from the storages of the op's calls.
#pragma once
#include <deque>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "sim/graph/op_graph.h"
#include "traces/import/pytorch/elements.h"
#include "traces/import/pytorch/execution_trace.h"

namespace baechi::pytorch {

struct RecordedOp;
struct Storage;

/// An output: the contents that one op leaves in one storage. A later write in place makes another
/// output.
struct Contents {
  RecordedOp* producer = nullptr;
  Storage* storage = nullptr;
  std::int64_t bytes = 0;
  bool in_place = false;   ///< the storage existed before the op
  bool reference = false;  ///< other contents of the storage have its bytes
  std::vector<RecordedOp*> readers;
};

/// Memory that holds one or more tensors.
struct Storage {
  std::int64_t bytes = 0;
  bool external = false;  ///< existed before the step: parameter, optimizer state, buffer, input
  bool state = false;     ///< existed before the step and is in some op's persistent bytes
  std::vector<std::int64_t> shape;  ///< external storages only: shape of the first tensor read
  std::string role;                 ///< argument name in the first call whose schema has names
  Contents* contents = nullptr;     ///< the latest write of the whole storage; null before it
  std::vector<std::pair<Elements, Contents*>> parts;  ///< writes of parts, newer than `contents`
  /// Elements that a view by as_strided shows, by the view's offset and number of elements.
  std::map<std::pair<std::int64_t, std::int64_t>, Elements> views;
};

/// A future op of the graph: its recorded calls, and their inputs and outputs.
struct RecordedOp {
  std::string kind, name;
  Phase phase = Phase::forward;
  std::vector<const Call*> calls;  ///< empty for an input of the step
  std::size_t root = 0;            ///< index into Dataflow::roots
  std::vector<Contents*> reads, writes;
  std::vector<Storage*> external;  ///< storages it reads as they were before the step
  std::vector<std::string> role;   ///< [external] argument name in the op's schema
  std::vector<Storage*> written;   ///< all storages it writes
  std::vector<Storage*> touched;   ///< all storages it uses
  std::vector<Storage*> results;   ///< storages of the tensors it gives back
  RecordedOp* forward = nullptr;   ///< backward ops only: the forward op it differentiates
  RecordedOp* owner = nullptr;     ///< updates only: the op that holds the parameter
  bool collective = false;
  bool side_effect = false;         ///< nobody reads its results, but it changes memory that stays
  bool differentiates = false;      ///< backward ops only: autograd's number names a forward call
  std::int64_t persistent = 0;      ///< bytes
  std::vector<RecordedOp*> labels;  ///< ops whose names are its colocation labels
  std::vector<RecordedOp*> before;  ///< ops that wait for this op, without data
  std::int64_t scratch = 0;         ///< updates only: bytes that calls on lists of tensors left
  std::size_t position = 0;         ///< index among the ops of the graph
};

/// A step's ops in the order of their calls, and the storages and outputs they share. Pointers to
/// elements of the deques stay valid.
struct Dataflow {
  std::deque<RecordedOp> arena;
  std::deque<Storage> storages;
  std::deque<Contents> contents;
  std::vector<RecordedOp*> ops;
  /// [ExecutionTrace::calls] the op that the call became; the op whose output the call is a view
  /// of. Null if there is none.
  std::vector<RecordedOp*> op_of_call, source_of_call;
  std::vector<std::pair<Call*, Phase>> roots;
  std::size_t collectives = 0, triton = 0;
  std::size_t split = 0;  ///< calls on lists of tensors that became one op per tensor
};

/// The phase of each outermost call of a step:
/// - update: the optimizer's calls;
/// - forward: up to the last call that advances autograd's sequence number;
/// - backward: the others, or forward if autograd did not run.
std::vector<std::pair<Call*, Phase>> phases(const std::vector<Call*>& roots);

/// The ops made of the calls under `roots`, with their inputs and outputs. Adds calls to `trace`
/// where cut() splits one.
Dataflow trace_dataflow(ExecutionTrace& trace, std::vector<std::pair<Call*, Phase>> roots);

/// Fills Contents::readers and drops every op whose results no remaining op reads. Kept are ops of
/// the last phase, because their results are the purpose of the step; collectives; and ops that
/// write memory from before the step. Returns the dropped ops.
std::vector<RecordedOp*> drop_unread(Dataflow& flow);

}  // namespace baechi::pytorch
