/// Reads a PyTorch execution trace, written by ExecutionTraceObserver (1.13:
/// ExecutionGraphObserver): calls with their tensors, without times.
#pragma once
#include <deque>

#include "traces/importer.h"

namespace baechi::pytorch {

/// An input or output tensor of a call: a view of a storage.
struct TensorView {
  std::int64_t storage = 0;  ///< an id derived from the address, which later storages may reuse
  /// Beginning and length in elements; bytes of an element.
  std::int64_t offset = 0, elements = 0, element_bytes = 0;
  std::vector<std::int64_t> shape;
  Precision precision = Precision::fp32;  ///< of its multiplications

  std::int64_t bytes() const { return elements * element_bytes; }
  /// Bytes of the storage, if the view reaches its end. Too large for an expanded view.
  std::int64_t storage_bytes() const { return (offset + elements) * element_bytes; }
};

/// An argument of a call with its tensors, several if it is a list.
struct Argument {
  std::string name;      ///< name in the schema; "" if the schema has none
  bool mutated = false;  ///< written by the call: `Tensor(a!)` in the schema
  bool list = false;
  std::vector<TensorView> tensors;
};

/// A recorded call: an operator, or a frame of autograd, the optimizer or the user.
struct Call {
  std::string full_name;  ///< "aten::add_"
  std::string name;       ///< "add_"
  bool is_operator = false;
  std::int64_t id = 0;  ///< rf_id: the profiler's number, ascending by start
  /// Autograd's sequence number; a backward call has the number of its forward call.
  std::int64_t sequence = -1;
  /// forward_thread: the thread that `sequence` is of (backward calls only, else 0).
  std::int64_t thread = 0, forward_thread = 0;
  std::string collective;  ///< of record_param_comms: "all_reduce"
  bool is_triton = false;

  std::vector<Argument> inputs;
  std::vector<Argument> outputs;
  /// Sizes and strides in elements (as_strided only).
  std::vector<std::int64_t> sizes, strides;

  Call* parent = nullptr;
  std::vector<Call*> children;
  std::size_t index = 0;        ///< in ExecutionTrace::calls; a part has that of the whole call
  double from = 0.0, to = 1.0;  ///< a part's share of the whole call's time, by start and end

  bool mutates() const;
  bool has_outputs() const;
  bool is_given(const TensorView& t) const;  ///< whether an input has the storage of `t`
  /// Whether all outputs share storages of inputs, and no input is mutated.
  bool is_view() const;
  bool is_part() const { return to - from < 1.0; }
  bool is_autograd() const { return name.starts_with("autograd::"); }
  bool is_optimizer() const { return name.starts_with("Optimizer."); }
};

struct ExecutionTrace {
  ExecutionTrace() = default;
  ExecutionTrace(ExecutionTrace&&) noexcept = default;  // calls point at calls
  std::string schema;                                   ///< "1.0.1", "1.1.1-chakra.0.0.4", ...
  std::deque<Call> calls;  ///< by id, parents before children; without the frames of threads
  /// Number of calls whose parent is not in the file, at most 1 %. Their parent is the innermost
  /// call of the thread that continues after them.
  std::size_t orphans = 0;
};

/// Throws InputError with all mistakes by line and column.
ExecutionTrace read_execution_trace(TextFile& file);

bool looks_like_execution_trace(std::string_view beginning);

/// An argument in the file: a number, a string, or a list.
struct Value {
  std::int64_t number = 0;
  bool is_number = false;
  std::string text;
  bool is_list = false;
  std::vector<Value> items;
};

/// All arguments, or all results, of a call.
struct Values {
  std::vector<Value> values, shapes;
  std::vector<std::string> types;
};

/// The arguments that an operator's schema declares: "aten::add_.Tensor(Tensor(a!) self, *, Scalar
/// alpha=1) -> Tensor(a!)" gives `self`, which is mutated, and `alpha`, which is not.
std::vector<Argument> arguments_of(std::string_view schema);

/// Adds the tensors of `from` to `arguments`, by position. Skips undefined tensors and Python's
/// numbers, which are recorded as 0-d tensors on the CPU.
void fill(const Values& from, std::vector<Argument>& arguments);

/// Flops and memory traffic of a recorded call, from the shapes of its tensors.
/// - Matmuls, convolutions, recurrent layers and attention, and their backward passes: 2 flops per
///   multiply-add of the textbook algorithm.
/// - Other calls: one flop per element of the largest tensor.
/// - Traffic: each input and output tensor once.
OpWork work_of(const Call& call, Precision of_convolutions);

}  // namespace baechi::pytorch
