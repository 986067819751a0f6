/// Text as a JSON string.
#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>

namespace baechi {

/// `text`, which is UTF-8, in quotes and escaped.
std::string json_string(std::string_view text);

/// The same, at the end of `out`.
void append_json_string(fmt::memory_buffer& out, std::string_view text);

}  // namespace baechi
