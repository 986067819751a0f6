/// Finds the tensors among the arguments and results of a recorded call.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/import/pytorch/execution_trace.h"

namespace baechi::pytorch {

/// An argument as the file has it: a number, text, or a list.
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

/// The arguments that a call's schema declares, by name, and which of them the call writes.
/// Example: "aten::add_.Tensor(Tensor(a!) self, *, Scalar alpha=1) -> Tensor(a!)" gives `self`,
/// which is mutated, and `alpha`, which is not.
std::vector<Argument> arguments_of(std::string_view schema);

/// Puts the tensors of `from` into `arguments`, which has names by position or is empty. Two kinds
/// of tensors have no storage and are left out: undefined tensors, and Python's numbers, which the
/// recording holds as tensors without dimensions on the CPU.
void fill(const Values& from, std::vector<Argument>& arguments);

}  // namespace baechi::pytorch
