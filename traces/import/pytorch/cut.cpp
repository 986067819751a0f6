#include "traces/import/pytorch/dataflow.h"

namespace baechi::pytorch {
namespace {

using NameList = std::initializer_list<std::string_view>;

bool is_one_of(std::string_view name, NameList names) {
  return std::ranges::find(names, name) != names.end();
}

/// Whether the call creates or changes a tensor object without accessing its contents.
bool only_allocates(std::string_view name) {
  return is_one_of(name, {"empty", "empty_strided", "empty_like", "new_empty", "new_empty_strided",
                          "resize_", "resize_as_", "as_strided_", "detach_", "requires_grad_",
                          "squeeze_", "unsqueeze_", "t_", "transpose_", "set_", "record_stream"});
}

bool fills_or_copies(std::string_view name) {
  return is_one_of(name,
                   {"fill_", "zero_", "zeros", "copy_", "to", "_to_copy", "clone", "contiguous"});
}

/// Whether the call is one op although it runs several kernels. Dropout: mask and result.
bool is_whole(std::string_view name) { return name == "dropout"; }

bool is_collective(const Call& call) {
  if (call.name != "record_param_comms") return false;
  for (const auto* arguments : {&call.inputs, &call.outputs})
    for (const Argument& a : *arguments)
      if (!a.tensors.empty()) return true;
  return false;  // a wait
}

bool takes(const Call& call, std::int64_t storage) {
  return std::ranges::any_of(call.inputs, [&](const Argument& a) {
    return std::ranges::any_of(a.tensors,
                               [&](const TensorView& t) { return t.storage == storage; });
  });
}

bool taken_inside(const Call& call, std::int64_t storage) {
  return std::ranges::any_of(call.children, [&](const Call* child) {
    return takes(*child, storage) || taken_inside(*child, storage);
  });
}

/// Whether the call itself runs a kernel: it has an input that no inner call takes. Inner calls may
/// prepare this kernel, such as the sort in the gradient of embedding_bag.
bool reads_itself(const Call& call) {
  return std::ranges::any_of(call.inputs, [&](const Argument& a) {
    return std::ranges::any_of(a.tensors, [&](const TensorView& t) {
      return t.elements > 0 && !taken_inside(call, t.storage);
    });
  });
}

/// Splits an optimizer's call on lists of tensors (_foreach_add_, _fused_adam_) into one call per
/// tensor. The i-th call gets the i-th tensor of each list, all other arguments, and a part of the
/// time in proportion to its bytes.
void split_lists(ExecutionTrace& trace, Call& whole) {
  std::size_t n = 0;
  std::int64_t total = 0;
  for (const Argument& a : whole.inputs) {
    if (!a.list || a.tensors.empty()) continue;
    n = a.tensors.size();
    for (const TensorView& t : a.tensors) total += t.bytes();
    break;
  }
  const auto spread = [&](const Argument& a) { return a.list && a.tensors.size() == n; };
  const auto part = [&](const std::vector<Argument>& arguments, std::size_t i) {
    std::vector<Argument> selected;
    selected.reserve(arguments.size());
    for (const Argument& a : arguments)
      selected.push_back({.name = a.name,
                          .mutated = a.mutated,
                          .list = a.list,
                          .tensors = spread(a) ? std::vector{a.tensors[i]} : a.tensors});
    return selected;
  };
  std::vector<Call*> parts;
  std::int64_t before = 0;
  const Argument& sizes = *std::ranges::find_if(whole.inputs, spread);
  for (std::size_t i = 0; i < n; ++i) {
    const std::int64_t bytes = sizes.tensors[i].bytes();
    const auto fraction = [&](std::int64_t x) {
      return total > 0 ? static_cast<double>(x) / static_cast<double>(total) : 0.0;
    };
    Call& call = trace.calls.emplace_back();
    call.full_name = whole.full_name;
    call.name = whole.name;
    call.is_operator = true;
    call.id = whole.id;
    call.thread = whole.thread;
    call.inputs = part(whole.inputs, i);
    call.outputs = part(whole.outputs, i);
    call.parent = &whole;
    call.index = whole.index;
    call.from = fraction(before);
    call.to = fraction(before + bytes);
    before += bytes;
    parts.push_back(&call);
  }
  whole.children = std::move(parts);
  whole.inputs.clear();
  whole.outputs.clear();
  whole.is_operator = false;
}

bool takes_lists(const Call& call) {
  if (!call.name.starts_with("_foreach_") && !call.name.starts_with("_fused_")) return false;
  const auto list = std::ranges::find_if(
      call.inputs, [](const Argument& a) { return a.list && !a.tensors.empty(); });
  return list != call.inputs.end() && list->tensors.size() > 1;
}

}  // namespace

std::vector<Call*> cut(ExecutionTrace& trace, Call& call, std::size_t& split) {
  if (is_collective(call)) return {&call};
  std::vector<Call*> inside;
  for (Call* child : call.children)
    for (Call* found : cut(trace, *child, split)) inside.push_back(found);
  if (call.is_triton) return {&call};
  if (!call.is_operator || only_allocates(call.name) || call.is_view()) return inside;
  if (!call.has_outputs() && !call.mutates())
    return inside;  // such as item(), whose result is a Python number
  if (std::ranges::any_of(inside, [](const Call* c) { return is_collective(*c); })) return inside;
  const auto kernels =
      std::ranges::count_if(inside, [](const Call* c) { return !fills_or_copies(c->name); });
  const bool below = call.sequence >= 0 &&
                     std::ranges::all_of(call.children, [](Call* c) { return c->sequence < 0; });
  if (kernels > 1 && !below && !is_whole(call.name) && !reads_itself(call)) return inside;
  if (!takes_lists(call)) return {&call};
  split_lists(trace, call);
  ++split;
  return call.children;
}

std::string kind_of(const Call& call) {
  if (call.name == "record_param_comms" && !call.collective.empty()) return call.collective;
  std::string_view name = call.name;
  while (name.ends_with('_') && name.size() > 1) name.remove_suffix(1);
  return std::string(name);
}

}  // namespace baechi::pytorch
