/// YAML text as a tree of values. The only file that knows yaml-cpp is yaml.cpp.
#pragma once
#include <string>
#include <string_view>

#include "sim/options.h"

namespace baechi {

/// The one document of `text`. `path` begins every message and every Value::where. An alias becomes
/// a copy of the value that it names. Throws InputError if the text is not YAML, has more than one
/// document, has a tag, or has a key that is given twice, empty or no plain text; and if it has
/// more than 1 MiB of text, 100 levels or 100 000 values (aliases expanded).
Options::Value parse_yaml(std::string_view text, const std::string& path);

}  // namespace baechi
