/// Text as a JSON string.
#pragma once
#include <string>
#include <string_view>

namespace baechi {

/// `text`, which is UTF-8, in quotes and escaped.
std::string json_string(std::string_view text);

}  // namespace baechi
