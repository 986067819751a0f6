#include "scenarios/read/what_if_files.h"

#include <filesystem>

#include "scenarios/read/paths.h"
#include "scenarios/read/sections.h"
#include "scenarios/read/yaml.h"

namespace baechi {
namespace {

namespace fs = std::filesystem;
using Value = Options::Value;

constexpr std::size_t most_rule_text = std::size_t{1} << 20U;
constexpr std::size_t most_rules = 10'000;
constexpr int most_nested_files = 10;

/// Substitutes values for ${NAME}, and records the names that occur.
class Substitution {
 public:
  Substitution(const Value& with, const Value* defaults) : with_(with), defaults_(defaults) {}

  void in(Value& value) {
    for (auto& [key, child] : value.children) in(child);
    const std::string text = std::move(value.text);
    value.text.clear();
    std::size_t from = 0;
    for (std::size_t at = text.find("${"); at != std::string::npos; at = text.find("${", from)) {
      const std::size_t end = text.find('}', at);
      if (end == std::string::npos) break;
      value.text += text.substr(from, at - from);
      const Value& found = value_of(text.substr(at + 2, end - at - 2), value.where);
      if (found.children.empty()) {
        value.text += found.text;
      } else if (at == 0 && end + 1 == text.size()) {
        value.children = found.children;
      } else {
        throw InputError(fmt::format("{}'{}' is a list or mapping inside a text",
                                     baechi::at(value.where), text.substr(at, end - at + 1)));
      }
      from = end + 1;
    }
    value.text += text.substr(from);
  }

  /// Throws InputError if a given value does not occur.
  void finish() const {
    std::vector<std::string> known(occurring_.begin(), occurring_.end());
    if (defaults_ != nullptr)
      for (const auto& [name, value] : defaults_->children)
        if (!occurring_.contains(name)) known.push_back(name);
    for (const auto& [name, value] : with_.children)
      if (std::ranges::find(known, name) == known.end())
        throw InputError(
            fmt::format("{}the rules have no value '{}'{} (values: {})", baechi::at(value.where),
                        name, did_you_mean(name, known),
                        known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
  }

 private:
  const Value& value_of(const std::string& name, const std::string& where) {
    occurring_.insert(name);
    if (const Value* given = find(with_, name)) return *given;
    if (defaults_ != nullptr)
      if (const Value* known = find(*defaults_, name)) return *known;
    throw InputError(
        fmt::format("{}${{{}}} has no value: give it by with: {{{}: ...}}", at(where), name, name));
  }

  const Value& with_;
  const Value* defaults_;
  std::set<std::string> occurring_;
};

Value with_files(const Value& list, const std::string& base, int depth);

std::int64_t read_every(const Value& value) {
  constexpr std::int64_t most = 1'000'000;
  const auto every = parse_number<std::int64_t>(value.text);
  if (!every || *every < 1 || *every > most)
    throw InputError(fmt::format("{}every: '{}' is not a whole number from 1 to {}",
                                 at(value.where), value.text, most));
  return *every;
}

RuleFile read_file(const std::string& path, const Value& with, int depth) {
  Value content = parse_yaml(read_small_file(path, most_rule_text, "rules"), path);
  Value rules = content;
  const Value* defaults = nullptr;
  const Value* every = nullptr;
  if (is_mapping(content)) {
    for (const auto& [key, value] : content.children)
      if (key != "with" && key != "rules" && key != "every")
        throw InputError(fmt::format("{}a file of rules has no key '{}' (keys: with, every, rules)",
                                     at(value.where), key));
    const Value* found = find(content, "rules");
    if (found == nullptr) throw InputError(path + ": it needs 'rules'");
    rules = *found;
    defaults = find(content, "with");
    every = find(content, "every");
  }
  if (!is_list(rules)) throw InputError(at(rules.where) + "not a list of rules");
  Substitution substitution(with, defaults);
  substitution.in(rules);
  RuleFile file;
  if (every != nullptr) {
    Value number = *every;
    substitution.in(number);
    file.every = read_every(number);
  }
  substitution.finish();
  file.rules = with_files(rules, fs::path(path).parent_path().string(), depth);
  return file;
}

/// The rules that replace {use: FILE, with: {...}}.
Value included_rules(const Value& rule, const std::string& base, int depth) {
  const Value& use = *find(rule, "use");
  for (const auto& [key, value] : rule.children)
    if (key != "use" && key != "with")
      throw InputError(fmt::format("{}only 'with' may accompany 'use'", at(value.where)));
  if (depth >= most_nested_files)
    throw InputError(
        fmt::format("{}use: more than {} files use each other", at(use.where), most_nested_files));
  const std::string path = find_rules(use.text, base);
  if (path.empty())
    throw InputError(fmt::format(
        "{}use: no file '{}'{}, and no entry of the catalogue ({})", at(use.where), use.text,
        did_you_mean(use.text, catalogue_of_rules()), fmt::join(catalogue_of_rules(), ", ")));
  const Value* with = find(rule, "with");
  RuleFile file = read_file(path, with == nullptr ? Value{} : *with, depth + 1);
  if (file.every > 1)
    throw InputError(
        fmt::format("{}use: '{}' is about one step in {}, and a scenario has one step: the verb "
                    "what-if takes the mean",
                    at(use.where), use.text, file.every));
  return std::move(file.rules);
}

Value with_files(const Value& list, const std::string& base, int depth) {
  Value all{.text = list.text, .where = list.where, .children = {}};
  for (const auto& [key, rule] : list.children) {
    if (!key.empty() || !is_mapping(rule) || find(rule, "use") == nullptr) {
      all.children.emplace_back(key, rule);
    } else {
      const Value more = included_rules(rule, base, depth);
      all.children.insert(all.children.end(), more.children.begin(), more.children.end());
    }
    if (all.children.size() > most_rules)
      throw InputError(fmt::format("{}more than {} rules", at(list.where), most_rules));
  }
  return all;
}

}  // namespace

std::string find_rules(const std::string& name, const std::string& base) {
  if (name.empty()) return "";
  if (const std::string own = (fs::path(base) / name).string(); is_file(own)) return own;
  const std::string folder = data_folder();
  if (folder.empty()) return "";
  const fs::path data(folder);
  for (const fs::path& path :
       {data / name, data / "scenarios" / name, data / "scenarios/whatif" / (name + ".yaml")})
    if (is_file(path)) return path.string();
  return "";
}

RuleFile read_rule_file(const std::string& path, const Value& with) {
  return read_file(path, with, 0);
}

Value with_included_rules(const Value& entry, const std::string& base) {
  if (!is_mapping(entry) || entry.children.size() != 1 || entry.children.front().first != "what_if")
    return entry;
  Value included = entry;
  Value& options = included.children.front().second;
  if (is_list(options)) {
    const Value list = options;
    options = {.text = {}, .where = list.where, .children = {{"rules", list}}};
  }
  if (Value* rules = find(options, "rules"); rules != nullptr && is_list(*rules))
    *rules = with_files(*rules, base, 0);
  return included;
}

WhatIfChoice what_if_choice(const std::string& name, const Value& with) {
  const std::string path = find_rules(name, "");
  if (path.empty())
    throw InputError(fmt::format("'{}' is no file of rules{}, nor an entry of the catalogue ({})",
                                 name, did_you_mean(name, catalogue_of_rules()),
                                 fmt::join(catalogue_of_rules(), ", ")));
  RuleFile file = read_rule_file(path, with);
  Choice choice;
  choice.name = "what_if";
  choice.where = path;
  choice.text = one_line(file.rules);
  choice.options =
      Options("what_if", {{"rules", std::move(file.rules)}}, fs::path(path).parent_path().string());
  return {make_transform_choice(std::move(choice)), file.every};
}

std::vector<std::string> catalogue_of_rules() {
  std::vector<std::string> names;
  std::error_code none;
  for (const auto& entry :
       fs::directory_iterator(fs::path(data_folder()) / "scenarios/whatif", none))
    if (entry.path().extension() == ".yaml") names.push_back(entry.path().stem().string());
  std::ranges::sort(names);
  return names;
}

}  // namespace baechi
