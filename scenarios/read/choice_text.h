/// Components with options as text, on command lines and in Python.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "scenarios/read/scenario.h"

namespace baechi {

/// Parses "NAME" or "NAME:key=value,key=value", the value of --placer and --importer. In
/// "exec:PATH,key=value" the name is "exec:PATH". Messages name `flag` as the place of a mistake.
/// Throws InputError if a part is not key=value or a key is given twice.
Choice parse_choice(std::string_view text, const std::string& flag);

/// Parses "key=value" texts as the options of the component `owner`. Throws InputError for the same
/// mistakes as parse_choice().
Options parse_options(std::string_view owner, const std::vector<std::string>& assignments,
                      const std::string& flag);

/// Splits `text` at every comma outside brackets.
std::vector<std::string> split_at_commas(std::string_view text);

}  // namespace baechi
