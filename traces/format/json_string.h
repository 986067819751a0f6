#pragma once
#include <fmt/format.h>

#include <string>
#include <string_view>

namespace baechi {

/// `text`, which must be UTF-8, as a JSON string with quotes.
std::string json_string(std::string_view text);

void append_json_string(fmt::memory_buffer& out, std::string_view text);

}  // namespace baechi
