/// Files of what-if rules, and rules that include them.
#pragma once
#include <string>
#include <vector>

#include "scenarios/read/scenario.h"
#include "sim/options.h"

namespace baechi {

/// The file of rules called `name`, the first of these that exists: the path, from `base`; a path
/// below the folder of the data, or below `scenarios` there; an entry of the catalogue there, such
/// as "amp". Returns "" if none exists.
std::string find_rules(const std::string& name, const std::string& base);

struct RuleFile {
  Options::Value rules{};
  std::int64_t every = 1;  ///< the rules are of one step in so many
};

/// The rules in the file at `path`: a list of rules, or {with: {NAME: default}, every: 8, rules:
/// [...]}.
/// Every ${NAME} is replaced by its value in `with`, a mapping, or else by the default. Rules of
/// included files are put in place. Throws InputError with places: no such file; not rules; a value
/// that no rule asks for; a missing value; files that include each other.
RuleFile read_rule_file(const std::string& path, const Options::Value& with);

/// `entry`, of a list of transforms; if it is {what_if: [...]}, every rule
/// {use: FILE, with: {NAME: value}} in it is replaced by the rules of the file, and the list is the
/// option `rules`. Relative paths are from `base`. Throws InputError as read_rule_file().
Options::Value with_included_rules(const Options::Value& entry, const std::string& base);

struct WhatIfChoice {
  TransformChoice transform;
  std::int64_t every = 1;  ///< as in RuleFile
};

/// The transform what_if with the rules of a file, found as find_rules() says; `with` as above.
WhatIfChoice what_if_choice(const std::string& name, const Options::Value& with);

/// The names of the catalogue: the files in scenarios/whatif of the folder of the data, in
/// alphabetical order.
std::vector<std::string> catalogue_of_rules();

}  // namespace baechi
