/// A PyTorch execution trace: the calls of a recording with their tensors, as
/// ExecutionTraceObserver (1.13: ExecutionGraphObserver) writes them. It knows no times.
#pragma once
#include <cstdint>
#include <deque>
#include <string>
#include <vector>

#include "traces/importer.h"

namespace baechi::pytorch {

/// What a call was given, or gave back: a view of a storage. Ids are addresses: they get reused.
struct TensorView {
  std::int64_t storage = 0;
  std::int64_t offset = 0, elements = 0, element_bytes = 0;
  std::vector<std::int64_t> shape;

  std::int64_t bytes() const { return elements * element_bytes; }
  /// What its storage holds, if it shows all of that: an expanded view has more elements.
  std::int64_t storage_bytes() const { return (offset + elements) * element_bytes; }
};

/// One argument of a call, with the tensors in it: several, if it is a list.
struct Argument {
  std::string name;      ///< of the schema; "" if that has none
  bool mutated = false;  ///< `Tensor(a!)`
  bool list = false;
  std::vector<TensorView> tensors;
};

/// A recorded call: an operator, or a frame of autograd, the optimizer or the user around
/// operators.
struct Call {
  std::string full_name;  ///< "aten::add_"
  std::string name;       ///< "add_"
  bool is_operator = false;
  std::int64_t id = 0;         ///< rf_id: the profiler's number; calls begin in its order
  std::int64_t sequence = -1;  ///< autograd's number; of a backward call, that of its forward call
  std::int64_t thread = 0, forward_thread = 0;  ///< the second is that of `sequence`; 0: forward
  std::string collective;                       ///< of record_param_comms: "all_reduce"
  bool is_triton = false;

  std::vector<Argument> inputs;
  std::vector<Argument> outputs;
  /// Of as_strided: sizes and strides, in elements.
  std::vector<std::int64_t> sizes, strides;

  Call* parent = nullptr;
  std::vector<Call*> children;
  std::size_t index = 0;  ///< in ExecutionTrace::calls; of a part of a call, that of the whole
  double from = 0.0, to = 1.0;  ///< of a part: which share of the whole's time is its own

  bool mutates() const;
  bool has_outputs() const;
  bool is_given(const TensorView& t) const;  ///< its storage, by some input
  /// Whether all it gives back lies in storages it was given, and it writes none of them.
  bool is_view() const;
  bool is_autograd() const { return name.starts_with("autograd::"); }
  bool is_optimizer() const { return name.starts_with("Optimizer."); }
};

struct ExecutionTrace {
  ExecutionTrace() = default;
  ExecutionTrace(ExecutionTrace&&) noexcept = default;  // calls point at calls
  std::string schema;                                   ///< "1.0.1", "1.1.1-chakra.0.0.4", ...
  std::deque<Call> calls;  ///< by id, so parents come before children; no frames of threads
};

/// Throws InputError with every mistake by line and column.
ExecutionTrace read_execution_trace(TextFile& file);

bool looks_like_execution_trace(std::string_view beginning);

}  // namespace baechi::pytorch
