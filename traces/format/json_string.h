/// Texts: UTF-8, and strings of JSON.
#pragma once
#include <fmt/format.h>

#include <cstddef>
#include <string>
#include <string_view>

namespace baechi {

/// Number of bytes of `text` before the first one that is not valid UTF-8.
std::size_t valid_utf8(std::string_view text);

/// Throws InputError "path:line:column: a byte that is not UTF-8" at the first such byte of `text`.
void require_utf8(const std::string& path, std::string_view text);

/// `text`, which must be UTF-8, as a JSON string with quotes.
std::string json_string(std::string_view text);

void append_json_string(fmt::memory_buffer& out, std::string_view text);

}  // namespace baechi
