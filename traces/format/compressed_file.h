/// Whole files in and out, compressed or not.
#pragma once
#include <string>
#include <string_view>

namespace baechi {

/// The file at `path`, decompressed if its first bytes say gzip or zstd, whatever its name; with
/// room behind it, so that JsonFile need not copy it. Throws InputError if it cannot be read, is
/// cut short or corrupt, or is over 16 GiB once decompressed.
std::string read_file(const std::string& path);

/// Decompresses `bytes` if they begin as gzip or zstd. `path` is for messages.
std::string decompressed(std::string bytes, const std::string& path);

/// Writes `text` to `path`, compressed if the name ends in .gz or .zst. The file appears whole or
/// not at all: it is written aside, in the same folder, and renamed. Equal text, equal bytes.
/// Throws InputError if it cannot be written.
void write_file(const std::string& path, std::string_view text);

}  // namespace baechi
