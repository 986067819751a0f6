/// Reads a PyTorch execution trace: the calls of a recording with their tensors, without times, as
/// ExecutionTraceObserver (1.13: ExecutionGraphObserver) writes them.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "sim/graph/op_graph.h"
#include "traces/importer.h"

namespace baechi::pytorch {

/// A tensor that a call takes or gives back: a view of a storage.
struct TensorView {
  std::int64_t storage = 0;  ///< an id made from an address, so later storages may reuse it
  /// Beginning and length in elements; size of an element.
  std::int64_t offset = 0, elements = 0, element_bytes = 0;
  std::vector<std::int64_t> shape;
  Precision precision = Precision::fp32;  ///< in which it is multiplied

  std::int64_t bytes() const { return elements * element_bytes; }
  /// Bytes of the storage, if the view reaches its end. Too large for an expanded view, which has
  /// more elements than its storage.
  std::int64_t storage_bytes() const { return (offset + elements) * element_bytes; }
};

/// One argument of a call, with its tensors: several if the argument is a list.
struct Argument {
  std::string name;      ///< name in the schema; "" if the schema has none
  bool mutated = false;  ///< the call writes it: `Tensor(a!)` in the schema
  bool list = false;
  std::vector<TensorView> tensors;
};

/// A recorded call: an operator, or a frame around operators (autograd's, the optimizer's or the
/// user's).
struct Call {
  std::string full_name;  ///< "aten::add_"
  std::string name;       ///< "add_"
  bool is_operator = false;
  std::int64_t id = 0;  ///< rf_id: the profiler's number; calls begin in its order
  /// Autograd's sequence number; a backward call has the number of its forward call.
  std::int64_t sequence = -1;
  /// forward_thread (backward calls only, else 0) is the thread that counted `sequence`.
  std::int64_t thread = 0, forward_thread = 0;
  std::string collective;  ///< record_param_comms only: its collective, "all_reduce"
  bool is_triton = false;

  std::vector<Argument> inputs;
  std::vector<Argument> outputs;
  /// Sizes and strides in elements (as_strided only).
  std::vector<std::int64_t> sizes, strides;

  Call* parent = nullptr;
  std::vector<Call*> children;
  std::size_t index = 0;        ///< in ExecutionTrace::calls; a part of a call has the whole call's
  double from = 0.0, to = 1.0;  ///< parts of a call: the part's share of the whole call's time

  bool mutates() const;
  bool has_outputs() const;
  bool is_given(const TensorView& t) const;  ///< whether some input has the storage of `t`
  /// Whether all results lie in storages of inputs, and the call writes none of these storages.
  bool is_view() const;
  bool is_part() const { return to - from < 1.0; }
  bool is_autograd() const { return name.starts_with("autograd::"); }
  bool is_optimizer() const { return name.starts_with("Optimizer."); }
};

struct ExecutionTrace {
  ExecutionTrace() = default;
  ExecutionTrace(ExecutionTrace&&) noexcept = default;  // calls point at calls
  std::string schema;                                   ///< "1.0.1", "1.1.1-chakra.0.0.4", ...
  std::deque<Call> calls;  ///< by id, so parents precede children; without frames of threads
  /// Number of calls whose parent is not in the file, at most one in a hundred. Such a call is in
  /// the innermost call of its thread that goes on after it.
  std::size_t orphans = 0;
};

/// Throws InputError with every mistake by line and column.
ExecutionTrace read_execution_trace(TextFile& file);

bool looks_like_execution_trace(std::string_view beginning);

}  // namespace baechi::pytorch
