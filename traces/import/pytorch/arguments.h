/// The tensors among what a call was given or gave back.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "traces/import/pytorch/execution_trace.h"

namespace baechi::pytorch {

/// An argument as written: a number, text, or a list.
struct Value {
  std::int64_t number = 0;
  bool is_number = false;
  std::string text;
  bool is_list = false;
  std::vector<Value> items;
};

struct Values {
  std::vector<Value> values, shapes;
  std::vector<std::string> types;
};

/// Names of the arguments, and which are written: of "aten::add_.Tensor(Tensor(a!) self, *, Scalar
/// alpha=1) -> Tensor(a!)" a written `self` and `alpha`.
std::vector<Argument> arguments_of(std::string_view schema);

/// Puts the tensors of `from` into `arguments`, which has names by position or none. Undefined
/// tensors and Python's numbers, which come as tensors of no dimension on the CPU, stand for no
/// storage.
void fill(const Values& from, std::vector<Argument>& arguments);

}  // namespace baechi::pytorch
