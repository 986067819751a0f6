/// What the ops of a step read and write, by the storages of their calls.
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

/// What one op leaves in one storage: an output. A later write in place makes another one.
struct Contents {
  RecordedOp* producer = nullptr;
  Storage* storage = nullptr;
  std::int64_t bytes = 0;
  bool in_place = false;  ///< the storage stood before
  std::vector<RecordedOp*> readers;
};

struct Storage {
  std::int64_t bytes = 0;
  bool external = false;  ///< it stood before the step: parameter, optimizer state, buffer, input
  std::vector<std::int64_t> shape;  ///< of an external one, as it was first read
  std::string role;                 ///< what the schema of the first call calls it that has one
  Contents* contents = nullptr;     ///< its latest, once an op has written all of it
  std::vector<std::pair<Elements, Contents*>> parts;                ///< newer than `contents`
  std::map<std::pair<std::int64_t, std::int64_t>, Elements> views;  ///< by offset and elements
};

struct RecordedOp {
  std::string kind, name;
  Phase phase = Phase::forward;
  std::vector<const Call*> calls;  ///< none: an input of the step
  std::size_t root = 0;            ///< into Dataflow::roots
  std::vector<Contents*> reads, writes;
  std::vector<Storage*> external;  ///< that it reads as they stood before the step
  std::vector<std::string> role;   ///< [external] what the op's schema calls that argument
  std::vector<Storage*> written;   ///< all storages it writes
  std::vector<Storage*> touched;   ///< all storages it uses
  std::vector<Storage*> results;   ///< those of its own result
  RecordedOp* forward = nullptr;   ///< of a backward op
  RecordedOp* owner = nullptr;     ///< of an update: the op that holds the parameter
  bool differentiates = false;     ///< of a backward op: autograd's number says what
  std::int64_t persistent = 0;
  std::vector<RecordedOp*> labels;         ///< the ops whose names are its colocation labels
  std::vector<RecordedOp*> updates_after;  ///< updates that wait for it
  std::size_t position = 0;                ///< among the ops of the graph
};

/// A step's ops in the order of their calls, and what they share. Pointers stay valid.
struct Dataflow {
  std::deque<RecordedOp> arena;
  std::deque<Storage> storages;
  std::deque<Contents> contents;
  std::vector<RecordedOp*> ops;
  /// [ExecutionTrace::calls] the op that a call is, else the one whose output it shows, if any.
  std::vector<RecordedOp*> op_of_call, source_of_call;
  std::vector<std::pair<Call*, Phase>> roots;
  std::size_t collectives = 0, triton = 0;
  std::size_t split = 0;  ///< calls on lists of tensors that became an op per tensor
};

/// The phases of the outermost calls of a step: forward ends with the last call that counts
/// autograd's sequence on, update is what the optimizer calls. Where autograd never ran all else is
/// forward.
std::vector<std::pair<Call*, Phase>> phases(const std::vector<Call*>& roots);

/// May split calls of `trace`.
Dataflow trace_dataflow(ExecutionTrace& trace, std::vector<std::pair<Call*, Phase>> roots);

/// Fills Contents::readers and drops the ops whose results nobody reads, as long as there are any:
/// but those of the last phase, whose results are what the step is for. Returns the dropped ones.
std::vector<RecordedOp*> drop_unread(Dataflow& flow);

}  // namespace baechi::pytorch
