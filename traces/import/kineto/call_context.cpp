#include "traces/import/kineto/call_context.h"

#include <fmt/ranges.h>

#include <algorithm>

namespace baechi::kineto {
namespace {

constexpr std::size_t most_scopes = 64;

/// Whether the call is a user's record_function, which names a part of the model.
bool is_scope(const Call& call) {
  return call.kind == CallKind::annotation && !call.name.starts_with("ProfilerStep#") &&
         !call.name.starts_with("Optimizer.") && !call.name.starts_with("enumerate(DataLoader)");
}

}  // namespace

bool is_frame(const Call& call) {
  return call.kind != CallKind::op || call.name.starts_with("autograd::engine");
}

std::vector<CallContext> call_contexts(const Recording& recording) {
  std::vector<CallContext> all;
  all.reserve(recording.calls.size());
  for (std::size_t i = 0; i < recording.calls.size(); ++i) {
    const Call& call = recording.calls[i];  // its parent is before it
    CallContext s = call.parent ? all[*call.parent] : CallContext{};
    if (!s.in_op) s.op = i;
    s.in_op = s.in_op || !is_frame(call);
    if (is_scope(call)) s.scope = i;
    if (call.communication) s.communication = i;
    if (call.name.starts_with("Optimizer.")) s.phase = Phase::update;
    if (call.name.starts_with("autograd::engine")) s.phase = Phase::backward;
    all.push_back(s);
  }
  return all;
}

std::string scopes(const Recording& recording, const std::vector<CallContext>& contexts,
                   std::size_t i) {
  std::vector<std::string_view> names;
  for (std::size_t at = contexts[i].scope; at != none && names.size() < most_scopes;) {
    names.push_back(recording.calls[at].name);
    const auto parent = recording.calls[at].parent;
    at = parent ? contexts[*parent].scope : none;
  }
  std::ranges::reverse(names);
  return fmt::format("{}", fmt::join(names, "."));
}

}  // namespace baechi::kineto
