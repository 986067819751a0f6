/// Names files of other programs by their beginnings, and says how a graph is had from them.
#pragma once
#include <string>
#include <string_view>

namespace baechi {

/// The kind of a file with this beginning, and the next step for the user, as the end of a
/// sentence: "a SQLite database: ...". "" if no kind is known. `path` decides if the beginning
/// could be several kinds. Give at least the first kilobyte; the bytes may be anything.
std::string kind_of_file(std::string_view beginning, std::string_view path);

}  // namespace baechi
