#include "sim/transform/what_if/what_if.h"

#include <algorithm>

#include "sim/error.h"

namespace baechi {
namespace {

using what_if::Rule;
using what_if::Scope;
using what_if::Selection;
using what_if::Step;
using what_if::StepDevices;

constexpr std::size_t most_ops = 2'000'000;  // of a resulting step

/// Applies `rule` to `step`. `mapped_op`, if given, is composed with the mapping of the change.
void apply_verb(const Rule& rule, Step& step, const StepDevices& devices,
                IdVector<OpId, OpId>* mapped_op) {
  if (!step.placed() && devices.timed && (rule.verb->needs_times() || rule.where.needs_times()))
    step.graph = devices.timed(step.graph);
  const Scope scope{step, devices};
  const Selection selected = rule.where.select(scope);
  if (std::ranges::find(selected, true) == selected.end()) {
    if (rule.optional || step.graph.num_ops() == 0) return;
    throw InputError(
        fmt::format("{}what_if: '{}' selects none of {} ops ('optional: true' lets it pass)",
                    at(rule.place), rule.name, step.graph.num_ops()));
  }
  try {
    what_if::Change change = rule.verb->apply(scope, selected);
    if (mapped_op != nullptr)
      for (OpId& v : *mapped_op)
        if (v != no_op) v = change.mapped_op[v];
    if (change.graph.num_ops() > most_ops)
      throw InputError(
          fmt::format("the step would have {} ops (at most {})", change.graph.num_ops(), most_ops));
    step = apply_change(step, std::move(change), devices);
  } catch (const InputError& e) {
    throw InputError(fmt::format("{}what_if: {}: {}", at(rule.place), rule.name, e.what()));
  }
}

}  // namespace

WhatIfRules::WhatIfRules(Options& o) {
  const Options::Value* given = o.raw("rules", "a list of rules, applied in turn");
  auto rules = std::make_shared<Rules>();
  if (given != nullptr) *rules = what_if::read_rules(*given);
  rules_ = std::move(rules);
}

std::shared_ptr<const Transform> WhatIfRules::on(StepDevices devices) const {
  return std::shared_ptr<const Transform>(new WhatIfRules(rules_, std::move(devices)));
}

Transformed WhatIfRules::apply(const OpGraph& graph) const {
  Transformed result = same_ops(graph);
  for (const Rule& rule : *rules_) {
    if (rule.transform != nullptr) {
      result = then(std::move(result), *rule.transform);
    } else if (!rule.after_placing) {
      Step step{.graph = std::move(result.graph)};
      apply_verb(rule, step, devices_, &result.mapped_op);
      result.graph = std::move(step.graph);
      result.batches *= rule.verb->samples();
    }
  }
  return result;
}

bool WhatIfRules::must_follow(std::string_view other) const {
  return std::ranges::any_of(*rules_, [&](const Rule& rule) {
    return rule.transform != nullptr && rule.transform->must_follow(other);
  });
}

bool WhatIfRules::applies(std::string_view other) const {
  return std::ranges::any_of(
      *rules_, [&](const Rule& rule) { return rule.transform != nullptr && rule.name == other; });
}

std::string WhatIfRules::no_pipeline(PipelineTraits pipeline) const {
  for (const Rule& rule : *rules_)
    if (rule.transform != nullptr)
      if (std::string why = rule.transform->no_pipeline(pipeline); !why.empty()) return why;
  return "";
}

std::int64_t WhatIfRules::devices() const {
  std::int64_t most = 1;
  for (const Rule& rule : *rules_)
    if (rule.transform != nullptr) most = std::max(most, rule.transform->devices());
  return most;
}

PlacedStep WhatIfRules::after_placing(const OpGraph& graph,
                                      const IdVector<OpId, DeviceId>& device) const {
  Step step{graph, device};
  for (const Rule& rule : *rules_) {
    if (rule.transform != nullptr) {
      if (rule.use != TransformUse::placed) continue;
      PlacedStep placed = rule.transform->after_placing(step.graph, step.device);
      step = {std::move(placed.graph), std::move(placed.device)};
    } else if (rule.after_placing) {
      apply_verb(rule, step, devices_, nullptr);
    }
  }
  return {std::move(step.graph), std::move(step.device)};
}

std::unique_ptr<Transform> make_what_if(Options& o) {
  return std::make_unique<WhatIfRules>(o);
}

}  // namespace baechi
