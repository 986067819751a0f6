/// Paths as scenario files write them: relative to the file, with ${NAME} for what differs between
/// machines, and patterns.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "sim/options.h"

namespace baechi {

/// The path that `value` writes: every ${NAME} replaced by that variable of the environment;
/// relative to `base` if it is relative. Throws InputError, at value.where, if a variable is not
/// set.
std::string resolve_path(const Options::Value& value, const std::string& base);

/// Whether `text` is a pattern: it has a * (any letters but /) or a ? (one of them).
bool is_pattern(std::string_view text);

/// The files that the pattern names, sorted, each written as the pattern is: its beginning, up to
/// the first part with a * or ?, unexpanded. Folders and names that begin with a dot are left out.
/// A ${NAME} stands in parts before those.
/// Throws InputError, at pattern.where, if there is none, or if it would have to look at more than
/// 100 000 names.
std::vector<std::string> matching_files(const Options::Value& pattern, const std::string& base);

/// A whole regular file of at most `most` bytes. Throws InputError beginning with `path` otherwise.
std::string read_small_file(const std::string& path, std::size_t most);

/// `text` as a file's name, at most 120 bytes: what is no letter, digit or one of "_-=.," becomes
/// '_'.
std::string plain_file_name(std::string_view text);

}  // namespace baechi
