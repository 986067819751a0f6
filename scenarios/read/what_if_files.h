/// Files of what-if rules, and rules that include them.
#pragma once

#include "scenarios/read/scenario.h"

namespace baechi {

/// The rule file called `name`, the first of these that exists: the path, relative to `base`; a
/// path below the data folder, or below `scenarios` there; an entry of its catalogue, such as
/// "amp". Returns "" if none exists.
std::string find_rules(const std::string& name, const std::string& base);

struct RuleFile {
  Options::Value rules{};
  std::int64_t every = 1;  ///< the rules change one step in so many
};

/// The rules in the file at `path`: a list of rules, or {with: {NAME: default}, every: 8, rules:
/// [...]}. Every ${NAME} is replaced by its value in `with`, a mapping, or else by the default.
/// Rules of included files are inserted. Throws InputError with positions: no such file; no rules;
/// a value that does not occur; a missing value; files that include each other.
RuleFile read_rule_file(const std::string& path, const Options::Value& with);

/// `entry` of a list of transforms. In {what_if: [...]}, every rule {use: FILE, with: {NAME:
/// value}} is replaced by the rules of the file, and the list becomes the option `rules`. Relative
/// paths are relative to `base`. Throws InputError as read_rule_file().
Options::Value with_included_rules(const Options::Value& entry, const std::string& base);

struct WhatIfChoice {
  TransformChoice transform;
  std::int64_t every = 1;  ///< as in RuleFile
};

/// The transform what_if with the rules of a file, located by find_rules(); `with` as above.
WhatIfChoice what_if_choice(const std::string& name, const Options::Value& with);

/// The names of the catalogue, sorted: the files in scenarios/whatif of the data folder.
std::vector<std::string> catalogue_of_rules();

}  // namespace baechi
