/// Published numbers in files that are not part of the repository.
#pragma once
#include <map>
#include <optional>
#include <string>

namespace baechi {

/// A cell of a table: the key `value` of the entry that has all of `where`.
struct FileCell {
  std::string file;                          ///< CSV with a header, or JSON with an object per line
  std::map<std::string, std::string> where;  ///< key -> text or number
  std::string value;                         ///< the key of the number
};

/// The value of a cell in a file.
struct FoundCell {
  bool null = false;  ///< JSON's null: nothing fitted into memory
  double number = 0.0;
};

/// Numbers in `where` are compared as numbers. Nothing if no entry matches all of `where`. Throws
/// InputError if the file cannot be read, if several entries match, or if their value is no number.
std::optional<FoundCell> find_cell(const FileCell& cell);

}  // namespace baechi
