/// A long JSON text as a row of short ones, so that no more of it need be in memory.
#pragma once
#include <cstddef>
#include <string>
#include <string_view>

#include "traces/format/compressed_file.h"

namespace baechi {

/// Of a byte in a file, from 1; columns count characters.
struct JsonPlace {
  std::size_t line = 1, column = 1;
  auto operator<=>(const JsonPlace&) const = default;
};

/// The place behind `text`, which begins at `from`.
JsonPlace behind(JsonPlace from, std::string_view text);

/// Part of a JSON text, whole in itself: where it begins or ends inside a list of the outermost
/// object, that is opened or closed for it, as in {"ops": [{...}, {...}]}.
struct JsonPiece {
  std::string text;
  std::size_t opening = 0;  ///< bytes in front that the file does not have here
  std::size_t closing = 0;  ///< and at the end
  JsonPlace place;          ///< in the file, of the byte behind `opening`
};

/// Cuts between two objects (or lists) of a list in the outermost object, and nowhere else: other
/// files are one piece. It does not check the text; what is broken stays broken in some piece.
class JsonPieces {
 public:
  static constexpr std::size_t usual = std::size_t{1} << 20U;
  static constexpr std::size_t most = std::size_t{1} << 32U;  ///< simdjson takes no more

  explicit JsonPieces(TextFile& file, std::size_t least = usual) : file_(file), least_(least) {}

  /// The next piece, which is all there is or at least `least` bytes; false at the end. Throws
  /// InputError, beside what `file` throws, if a piece would be over `most` bytes.
  bool next(JsonPiece& piece);

 private:
  /// Walks over what was read; true where it can be cut: behind cut_end_ and before cut_begin_.
  bool walk();
  bool look(std::size_t at);
  bool may_cut_at(std::size_t at);

  TextFile& file_;
  std::size_t least_;
  std::string text_;
  std::size_t opening_ = 0;
  JsonPlace place_;
  bool done_ = false;
  // Where walk() is in text_:
  std::size_t at_ = 0;
  std::size_t depth_ = 0;  // open brackets
  bool inside_string_ = false;
  bool in_object_ = false;             // at depth 1
  bool in_list_ = false;               // at depth 2, in an object
  bool ended_ = false;                 // the outermost value has
  std::size_t key_ = 0, key_end_ = 0;  // the last string at depth 1, with its quotes
  std::string list_;                   // the key of the list at depth 2, with its quotes
  std::size_t cut_end_ = 0, cut_begin_ = 0;
};

}  // namespace baechi
