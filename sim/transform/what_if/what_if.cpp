#include "sim/transform/what_if/what_if.h"

namespace baechi::what_if {
namespace {

using Value = Options::Value;

constexpr std::string_view about[] = {"where", "optional", "after_placing"};

/// The options of a verb or transform.
Options options_of(const std::string& name, const Value& value) {
  const bool list = !value.children.empty() && value.children.front().first.empty();
  if (list || !value.text.empty())
    throw InputError(fmt::format("{}{}: not a mapping of options", at(value.where), name));
  return Options(name, {value.children.begin(), value.children.end()});
}

std::vector<std::string> known_names() {
  std::vector<std::string> known;
  for (const VerbEntry& entry : verbs()) known.emplace_back(entry.name);
  for (const TransformEntry& entry : transforms())
    if (entry.use != TransformUse::placing) known.emplace_back(entry.name);
  return known;
}

void make_verb(Rule& rule, const VerbEntry& entry, const Value& value) {
  Options options = options_of(rule.name, value);
  rule.verb = entry.make(options);
  options.finish();
}

void make_part(Rule& rule, const Value& value) {
  const auto verb = std::ranges::find(verbs(), rule.name, &VerbEntry::name);
  if (verb != verbs().end()) return make_verb(rule, *verb, value);
  const auto entry = std::ranges::find(transforms(), rule.name, &TransformEntry::name);
  if (entry == transforms().end())
    throw InputError(fmt::format("{}no verb or transform '{}'{} (one of {})", at(value.where),
                                 rule.name, did_you_mean(rule.name, known_names()),
                                 fmt::join(known_names(), ", ")));
  if (entry->use == TransformUse::placing)
    throw InputError(fmt::format("{}'{}' changes only what placers see, not the step (one of {})",
                                 at(value.where), rule.name, fmt::join(known_names(), ", ")));
  rule.transform = make_transform(rule.name, options_of(rule.name, value), value.where);
  rule.use = entry->use;
}

Rule read_rule(const Value& value) {
  Rule rule{.place = value.where, .name = {}};
  if (value.children.empty() && !value.text.empty()) {  // `- recompute`
    rule.name = value.text;
    make_part(rule, {.text = {}, .where = value.where, .children = {}});
    return rule;
  }
  Options options("rule", {value.children.begin(), value.children.end()});
  const Value* part = nullptr;
  for (const auto& [key, child] : value.children) {
    if (std::ranges::find(about, key) != std::end(about)) continue;
    if (key.empty() || part != nullptr)
      throw InputError(
          fmt::format("{}a rule has one verb, and '{}' is a second one (other keys: {})",
                      at(child.where), key, fmt::join(about, ", ")));
    part = &child;
    rule.name = key;
    options.raw(key, "");
  }
  if (part == nullptr)
    throw InputError(fmt::format("{}a rule without a verb (one of {})", at(value.where),
                                 fmt::join(known_names(), ", ")));
  Mistakes mistakes;
  mistakes.attempt([&] { make_part(rule, *part); });
  const Value* where = options.raw("where", "");
  mistakes.attempt([&] { rule.where = Where::read(where); });
  rule.optional = options.get("optional", false, "");
  rule.after_placing = options.get("after_placing", false, "");
  if (rule.transform != nullptr)
    for (const std::string_view key : about)
      if (std::ranges::find(value.children, key, [](const auto& c) { return c.first; }) !=
          value.children.end())
        options.mistake(std::string(key),
                        fmt::format("'{}' is a transform, which applies to all ops", rule.name));
  if (rule.verb != nullptr && rule.verb->samples() != 1.0 &&
      (where != nullptr || rule.after_placing))
    options.mistake(where != nullptr ? "where" : "after_placing",
                    "batch applies to all ops, before placing");
  mistakes.attempt([&] { options.finish(); });
  mistakes.throw_if_any();
  return rule;
}

}  // namespace

std::vector<Rule> read_rules(const Value& list) {
  if (!list.text.empty() || (!list.children.empty() && !list.children.front().first.empty()))
    throw InputError(at(list.where) + "what_if: not a list of rules");
  std::vector<Rule> rules;
  Mistakes mistakes;
  for (const auto& [none, value] : list.children)
    mistakes.attempt([&] { rules.push_back(read_rule(value)); });
  // An op that merges layers with their updates does not say what of it is weights.
  const auto must_follow = [](const Rule& rule, std::string_view other) {
    return rule.transform != nullptr ? rule.transform->must_follow(other)
                                     : rule.name == "merge" && rule.where.all() &&
                                           (other == "precision" || other == "quantize");
  };
  for (std::size_t i = 0; i < rules.size(); ++i)
    for (const Rule& before : std::span(rules).first(i))
      if (must_follow(before, rules[i].name))
        mistakes.add(fmt::format("{}what_if: '{}' must come before '{}'", at(rules[i].place),
                                 rules[i].name, before.name));
  mistakes.throw_if_any();
  return rules;
}
}  // namespace baechi::what_if

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
    throw NothingSelected(
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

std::unique_ptr<Transform> make_what_if(Options& o) { return std::make_unique<WhatIfRules>(o); }

}  // namespace baechi
