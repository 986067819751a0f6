/// YAML text as a tree of values. Only yaml.cpp uses yaml-cpp.
#pragma once
#include <string>
#include <string_view>

#include "sim/options.h"

namespace baechi {

/// Parses the single document of `text`. `path` begins every message and every Value::where. An
/// alias becomes a copy of its value. Throws InputError if the text is not YAML, has more than one
/// document, has a tag, or has a key that is repeated, empty or no plain text; and if it has more
/// than 1 MiB of text, 100 levels or 100 000 values (aliases expanded).
Options::Value parse_yaml(std::string_view text, const std::string& path);

}  // namespace baechi
