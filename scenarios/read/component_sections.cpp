#include <algorithm>
#include <map>
#include <set>

#include "placers/interface/registry.h"
#include "scenarios/read/section.h"
#include "scenarios/read/sections.h"
#include "scenarios/read/tree.h"
#include "scenarios/read/what_if_files.h"
#include "sim/measure/measure.h"
#include "sim/transform/transform.h"

namespace baechi {
namespace {

using Value = Options::Value;

/// Reads NAME, or {NAME: {option: value, ...}}, in the list `owner`.
Choice read_choice(const Value& entry, std::string_view owner, const std::string& base) {
  const std::size_t colon = entry.text.find(':');
  if (entry.children.empty() && colon != std::string::npos && !entry.text.starts_with("exec:"))
    throw InputError(fmt::format("{}{}: '{}': write options as {{{}: {{option: value, ...}}}}",
                                 at(entry.where), owner, entry.text, entry.text.substr(0, colon)));
  if (entry.children.empty() && !entry.text.empty())
    return {.name = entry.text, .options = Options(entry.text, {}, base), .where = entry.where};
  if (!is_mapping(entry) || entry.children.size() != 1)
    throw InputError(fmt::format("{}{}: not a NAME or {{NAME: {{option: value, ...}}}}",
                                 at(entry.where), owner));
  const auto& [name, options] = entry.children.front();
  return {.name = name, .options = options_of(options, name, base), .where = entry.where};
}

/// Removes the user's name from {name: TEXT, PLACER: {...}} and returns it; "" if there is none.
std::string take_name(Value& entry) {
  if (!is_mapping(entry) || entry.children.size() != 2) return "";
  const auto it = std::ranges::find(entry.children, "name", [](const auto& c) { return c.first; });
  if (it == entry.children.end()) return "";
  if (it->second.text.empty() || !it->second.children.empty())
    throw InputError(fmt::format("{}name: not a text", at(it->second.where)));
  std::string name = it->second.text;
  entry.children.erase(it);
  return name;
}

std::string text_with_options(const Value& entry) {
  if (!is_mapping(entry)) return entry.text;
  const auto& [name, options] = entry.children.front();
  std::string text = name;
  for (const auto& [key, value] : options.children)
    text += fmt::format("{}{}={}", text.size() == name.size() ? ':' : ',', key, one_line(value));
  return text;
}

}  // namespace

std::vector<PlacerChoice> read_placers(const Value& section, const std::string& base,
                                       Mistakes& mistakes) {
  std::vector<PlacerChoice> choices;
  if (!is_list(section)) {
    mistakes.add(at(section.where) + "placers: not a list of NAME or {NAME: {option: value, ...}}");
    return choices;
  }
  std::map<std::string, int> uses;
  std::vector<Value> entries;
  std::vector<std::string> names;
  for (const auto& [key, given] : section.children) {
    mistakes.attempt([&] {
      Value entry = given;
      names.push_back(take_name(entry));
      entries.push_back(entry);
      choices.push_back({read_choice(entry, "placers", base)});
      PlacerChoice& choice = choices.back();
      ++uses[choice.name];
      choice.placer = make_placer(choice.name, choice.options, entry.where);
    });
  }
  if (choices.size() != section.children.size()) return choices;
  std::set<std::string> labels;
  for (std::size_t i = 0; i < choices.size(); ++i) {
    choices[i].text = text_with_options(entries[i]);
    choices[i].label = !names[i].empty()           ? names[i]
                       : uses[choices[i].name] > 1 ? choices[i].text
                                                   : choices[i].name;
    if (!labels.insert(choices[i].label).second)
      mistakes.add(
          fmt::format("{}placers: '{}' is listed twice", at(choices[i].where), choices[i].label));
  }
  return choices;
}

TransformChoice make_transform_choice(Choice choice) {
  TransformChoice made{std::move(choice)};
  made.transform = make_transform(made.name, made.options, made.where);
  made.use = std::ranges::find(transforms(), made.name, &TransformEntry::name)->use;
  return made;
}

std::vector<TransformChoice> read_transforms(const Value& section, const std::string& base,
                                             Mistakes& mistakes) {
  std::vector<TransformChoice> choices;
  const auto one = [&](const Value& given) {
    mistakes.attempt([&] {
      const Value entry = with_included_rules(given, base);
      Choice choice = read_choice(entry, "transforms", base);
      choice.text = text_with_options(entry);
      choices.push_back(make_transform_choice(std::move(choice)));
    });
  };
  if (section.text.empty() && section.children.empty()) return choices;
  if (section.text == "none") return choices;  // the baseline of a sweep
  if (!is_list(section)) {
    one(section);
    return choices;
  }
  for (const auto& [key, entry] : section.children) one(entry);
  return choices;
}

namespace {

/// Adds to `entries` one entry for each combination of the lists of values in the options of
/// `entry`; the last option varies fastest. Without lists, `entry` itself.
void expand_lists(const Value& entry, std::vector<Value>& entries) {
  if (is_mapping(entry) && entry.children.size() == 1) {
    for (std::size_t i = 0; i < entry.children.front().second.children.size(); ++i) {
      const Value& values = entry.children.front().second.children[i].second;
      if (!is_list(values)) continue;
      for (const auto& [key, value] : values.children) {
        Value one = entry;
        one.children.front().second.children[i].second = value;
        expand_lists(one, entries);
      }
      return;
    }
  }
  entries.push_back(entry);
}

MeasureChoice make_measure_choice(Choice choice) {
  MeasureChoice made{std::move(choice)};
  made.measure = make_measure(made.name, made.options, made.where);
  made.unit = std::ranges::find(measures(), made.name, &MeasureEntry::name)->unit;
  return made;
}

}  // namespace

std::vector<MeasureChoice> read_measures(const Value& section, const std::string& base,
                                         Mistakes& mistakes) {
  std::vector<Value> entries;
  if (section.text.empty() && section.children.empty())
    entries.push_back(
        {.text = std::string(default_measure), .where = section.where, .children = {}});
  else if (is_list(section))
    for (const auto& [key, entry] : section.children) expand_lists(entry, entries);
  else
    expand_lists(section, entries);
  std::vector<MeasureChoice> choices;
  std::set<std::string> texts;
  for (const Value& entry : entries) {
    mistakes.attempt([&] {
      Choice choice = read_choice(entry, "measure", base);
      choice.text = choice.label = text_with_options(entry);
      if (!texts.insert(choice.text).second)
        throw InputError(
            fmt::format("{}measure: '{}' is listed twice", at(choice.where), choice.text));
      choices.push_back(make_measure_choice(std::move(choice)));
    });
  }
  return choices;
}

}  // namespace baechi
