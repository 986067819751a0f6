/// YAML text as a tree of values. The only file that knows yaml-cpp is yaml.cpp.
#pragma once
#include <string>
#include <string_view>

#include "sim/options.h"

namespace baechi {

/// The one document of `text`; `path` begins every message and every Value::where. An alias is a
/// copy of what it names.
/// Throws InputError on text that is not YAML, more than one document, a key given twice, empty or
/// not a plain text, a tag, and on what no honest file has: more than 1 MiB of text, 100 levels, or
/// 100 000 values (aliases expanded).
Options::Value parse_yaml(std::string_view text, const std::string& path);

}  // namespace baechi
