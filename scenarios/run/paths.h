/// Paths as scenario files write them: relative to the file, with ${NAME} for what differs between
/// machines, and patterns.
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace baechi {

/// `text` with every ${NAME} replaced by that variable of the environment. Throws InputError if one
/// is not set.
std::string expand_environment(std::string_view text);

/// `text` expanded; relative to `base` if it is relative.
std::string resolve_path(std::string_view text, const std::string& base);

/// Whether `text` is a pattern: it has a * (any letters but /) or a ? (one of them).
bool is_pattern(std::string_view text);

/// The files that the pattern names, sorted, each written as the pattern is: its beginning, up to
/// the first part with a * or ?, unexpanded. Folders and names that begin with a dot are left out.
/// Throws InputError if it would have to look at more than 100 000 names.
std::vector<std::string> matching_files(std::string_view pattern, const std::string& base);

/// A whole regular file of at most `most` bytes. Throws InputError beginning with `path` otherwise.
std::string read_small_file(const std::string& path, std::size_t most);

}  // namespace baechi
