#pragma once
#include <cstddef>
#include <string>
#include <string_view>

namespace baechi {

/// Number of bytes of `text` before the first one that is not valid UTF-8.
std::size_t valid_utf8(std::string_view text);

/// Throws InputError "path:line:column: a byte that is not UTF-8" at the first such byte of `text`.
void require_utf8(const std::string& path, std::string_view text);

}  // namespace baechi
