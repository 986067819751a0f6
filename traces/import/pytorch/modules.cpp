#include "traces/import/pytorch/modules.h"

#include <algorithm>
#include <string_view>
#include <vector>

namespace baechi::pytorch {
namespace {

/// Whether the frame's name has only letters, digits, '_' and '.'. Frames of the profiler, autograd
/// and optimizers have other names, except those listed.
bool names_module(const Call& frame) {
  if (frame.is_operator || frame.is_triton || frame.sequence >= 0) return false;
  if (!frame.collective.empty() || frame.name == "record_param_comms") return false;
  if (frame.is_optimizer() || frame.full_name == "DistributedDataParallel.forward" ||
      frame.full_name == "CompiledFunction")
    return false;
  const auto of_path = [](char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '.';
  };
  return !frame.full_name.empty() && std::ranges::all_of(frame.full_name, of_path);
}

std::string path_of(const Call& call) {
  std::vector<std::string_view> frames;
  for (const Call* c = call.parent; c != nullptr; c = c->parent)
    if (names_module(*c)) frames.push_back(c->full_name);
  std::string path;
  for (auto frame = frames.rbegin(); frame != frames.rend(); ++frame) {
    if (path.empty() || (frame->starts_with(path) && frame->substr(path.size()).starts_with('.'))) {
      path = *frame;
    } else {
      path += '.';
      path += *frame;
    }
  }
  return path;
}

}  // namespace

std::string module_of(const RecordedOp& op) {
  if (op.owner != nullptr) return module_of(*op.owner);
  if (op.phase == Phase::backward && op.forward != nullptr && op.forward->phase == Phase::forward)
    return module_of(*op.forward);
  if (op.phase != Phase::forward) return "";
  return op.calls.empty() ? "" : path_of(*op.calls.front());
}

}  // namespace baechi::pytorch
