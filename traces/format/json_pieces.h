/// Splits a long JSON text into short ones, of which only one or two are in memory at a time.
#pragma once
#include "traces/format/compressed_file.h"

namespace baechi {

/// Line and column of a byte in a file, from 1. Columns count characters.
struct JsonPlace {
  std::size_t line = 1, column = 1;
  auto operator<=>(const JsonPlace&) const = default;
};

/// The place after `text`, which begins at `from`.
JsonPlace advance(JsonPlace from, std::string_view text);

/// A part of a JSON text that is itself valid JSON: a piece that begins or ends within a list of
/// the outermost object gets extra brackets. Example: {"ops": [{"a":1}, {"b":2}]} gives {"ops":
/// [{"a":1}]} and {"ops": [{"b":2}]}.
struct JsonPiece {
  std::string text;
  std::size_t opening = 0;  ///< bytes added at the beginning
  std::size_t closing = 0;  ///< bytes added at the end
  JsonPlace place;          ///< place in the file of the first byte after `opening`
};

/// Cuts only between objects (or lists) of a list in the outermost object; a file without such a
/// list is one piece. Malformed JSON stays malformed in one of the pieces.
class JsonPieces {
 public:
  static constexpr std::size_t usual = std::size_t{1} << 20U;  ///< default of `least`, in bytes
  static constexpr std::size_t most = std::size_t{1} << 32U;   ///< bytes; simdjson's limit

  explicit JsonPieces(TextFile& file, std::size_t least = usual) : file_(file), least_(least) {}

  /// Sets `piece` to the next piece, of at least `least` bytes unless it is the last; false at the
  /// end. Throws as `file` does, and InputError on a piece of over `most` bytes.
  bool next(JsonPiece& piece);

 private:
  /// Scans text_. True at the first possible cut after least_ bytes: the piece ends at cut_end_,
  /// and the next piece begins at cut_begin_.
  bool scan();
  std::uint64_t escaped(std::uint64_t backslashes, std::size_t size);
  std::uint64_t brackets(std::size_t size);
  bool visit(std::size_t at);
  std::string key_before(std::size_t at) const;
  bool may_cut_at(std::size_t at);

  TextFile& file_;
  std::size_t least_;
  std::string text_;
  std::size_t opening_ = 0;
  JsonPlace place_;
  bool done_ = false;
  // State of the scan of text_:
  std::size_t at_ = 0;
  std::size_t depth_ = 0;  // open brackets
  bool inside_string_ = false;
  bool escaped_ = false;    // the next byte is escaped
  bool in_object_ = false;  // the outermost value is an object
  bool in_list_ = false;    // the bracket at depth 2 is a list's, inside an object
  bool ended_ = false;      // the outermost value has ended
  std::string list_;        // the key of the list at depth 2, with its quotes
  std::size_t cut_end_ = 0, cut_begin_ = 0;
};

}  // namespace baechi
