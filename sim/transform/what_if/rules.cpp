#include "sim/transform/what_if/rules.h"

#include <algorithm>
#include <map>
#include <optional>

#include "sim/error.h"

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
  for (std::size_t i = 0; i < rules.size(); ++i)
    for (const Rule& before : std::span(rules).first(i))
      if (before.transform != nullptr && before.transform->must_follow(rules[i].name))
        mistakes.add(fmt::format("{}what_if: '{}' must come before '{}'", at(rules[i].place),
                                 rules[i].name, before.name));
  mistakes.throw_if_any();
  return rules;
}

}  // namespace baechi::what_if
