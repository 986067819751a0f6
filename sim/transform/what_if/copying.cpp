#include "sim/transform/what_if/copying.h"

#include <fmt/format.h>

#include <algorithm>

namespace baechi::what_if {

Copying::Copying(const OpGraph& graph)
    : graph_(graph), copy_(graph), tensors_(graph.num_tensors()) {}

void Copying::ops() {
  for (const OpId v : graph_.ops()) {
    if (keeps && !keeps(v)) continue;
    if (before) before(v);
    OpSpec spec = copy_.spec(v);
    if (respec) respec(v, spec);
    const OpId made = copy_.add(v, spec, [&](Duration time, std::size_t kind) {
      return retime ? retime(v, time, kind) : time;
    });
    anchor_.push_back(v);
    copy_.add_kernels(v, made, [&](OpWork work) { return rework ? rework(v, work) : work; });
    for (const TensorId t : graph_.outputs(v)) {
      const Tensor& tensor = graph_.tensor(t);
      if (!tensor.control)
        tensors_[t] = copy_.add_tensor(t, made, resize ? resize(t) : tensor.size);
    }
    if (after) after(v);
  }
}

void Copying::edges(const std::function<bool(const Edge&)>& keep) {
  copy_.add_edges(tensors_, keep);
}

OpId Copying::insert(const OpSpec& spec, OpId anchor, const OpWork& work,
                     std::optional<Duration> time) {
  OpSpec timed = spec;
  const auto& kinds = graph_.device_kinds();
  timed.compute = kinds.empty() ? time.value_or(Duration{}) : Duration{};
  const OpId made = copy_.builder().add_op(timed);
  if (!time && work.none()) time = Duration{};
  for (const std::string& kind : kinds) copy_.builder().set_compute(made, kind, time);
  copy_.builder().add_kernel(made, work);
  anchor_.push_back(anchor);
  colocated_.emplace_back(made, anchor);
  return made;
}

std::string Copying::unique_name(const std::string& name) {
  if (names_.empty())
    for (const OpId v : graph_.ops()) names_.insert(graph_.name(v));
  std::string candidate = name;
  for (int n = 2; names_.contains(candidate) || copy_.builder().find(candidate); ++n)
    candidate = fmt::format("{}_{}", name, n);
  return candidate;
}

Change Copying::built() && {
  for (const auto& [made, v] : colocated_)
    if (copy_.copy_of(v) != no_op) copy_.colocate(made, v);
  IdVector<OpId, OpId> renumbered;
  Transformed copied = std::move(copy_).built(&renumbered);
  Change change{.graph = std::move(copied.graph), .mapped_op = std::move(copied.mapped_op)};
  change.anchor.assign(anchor_.size(), OpId{});
  for (const OpId v : renumbered.ids()) change.anchor[renumbered[v]] = anchor_[v];
  if (rework) {
    change.reworked.assign(anchor_.size(), false);
    for (const OpId v : graph_.ops()) {
      const OpId now = change.mapped_op[v];
      if (now == no_op) continue;
      const auto old = graph_.kernels(v), kernels = change.graph.kernels(now);
      change.reworked[now] = !std::equal(old.begin(), old.end(), kernels.begin(), kernels.end());
    }
  }
  return change;
}

}  // namespace baechi::what_if
