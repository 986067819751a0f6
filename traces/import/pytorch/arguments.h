/// Extracts tensors from the arguments and results of a recorded call.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/import/pytorch/execution_trace.h"

namespace baechi::pytorch {

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

}  // namespace baechi::pytorch
