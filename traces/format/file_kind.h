#pragma once
#include <string>
#include <string_view>

namespace baechi {

/// Describes a file of another program by its beginning (at least the first kilobyte, any bytes),
/// and how to get a graph from it: "a SQLite database: ...". `path` decides if the beginning is
/// ambiguous. "" if the kind is unknown.
std::string kind_of_file(std::string_view beginning, std::string_view path);

}  // namespace baechi
