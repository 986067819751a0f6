/// JSON read once, front to back, with every mistake at its line and column: a thin layer over
/// simdjson's On-Demand parser. Include it in the .cpp that reads a format, never in a header.
#pragma once
#include <fmt/format.h>
#include <simdjson.h>

#include <cstdint>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/names.h"
#include "traces/format/json_pieces.h"

namespace baechi {

class Json;

/// The keys of one kind of object; the first `required` must be there. Others are mistakes, unless
/// they begin with "x-". At most 64.
struct JsonKeys {
  std::string_view object;  ///< "an op", for messages
  std::span<const std::string_view> names;
  std::size_t required = 0;
};

/// A JSON text that is being read, and what was found wrong in it.
class JsonFile {
 public:
  /// `text` outlives this; it is copied unless its capacity() leaves simdjson's 64 bytes behind it.
  /// Throws InputError if it is not UTF-8, empty or over 4 GB.
  JsonFile(std::string_view path, const std::string& text);
  /// To be read by object(), piece by piece, and so of any length; `file` outlives this. Throws as
  /// `file` does, and as the other of each piece.
  explicit JsonFile(TextFile& file);
  JsonFile(const JsonFile&) = delete;
  JsonFile& operator=(const JsonFile&) = delete;

  /// The one value of the file; to be read before finish(). Throws InputError if it is neither an
  /// object nor a list.
  Json root();
  /// root().object(), if need be in pieces: a list may come in several, one call of `field` each.
  /// Strings and offsets then hold for the time of such a call.
  template <class Field>
  void object(const JsonKeys& keys, Field&& field);

  /// Of the byte at `offset`, as Json::offset() gives it.
  JsonPlace place(std::size_t offset);
  /// "path:line:column: what", to be thrown with all others.
  void mistake(JsonPlace place, std::string what);
  void mistake(std::size_t offset, std::string what);

  /// Throws InputError if there were mistakes (20 of them, by place), or the file goes on.
  void finish();

  /// As finish(), where there is more to check than the file's end.
  void throw_if_any() const;

  /// Of broken JSON, at once, together with the mistakes before it.
  [[noreturn]] void syntax_error(std::size_t offset, std::string_view what);

 private:
  friend class Json;
  struct Mistake {
    JsonPlace place;
    std::string what;
  };
  void begin();
  bool next_piece();
  [[noreturn]] void broken(simdjson::error_code error);
  std::size_t offset_of(const char* place) const {
    return static_cast<std::size_t>(place - text_.data());
  }
  bool known(simdjson::ondemand::field& field, const JsonKeys& keys, std::size_t& key,
             std::uint64_t& seen);
  void check_required(auto where, const JsonKeys& keys, std::uint64_t seen) {
    for (std::size_t i = 0; i < keys.required; ++i)
      if ((seen >> i & 1U) == 0)
        mistake(where, fmt::format("{} needs a key '{}'", keys.object, keys.names[i]));
  }
  void check_syntax(simdjson::ondemand::value value, int depth);

  std::string path_;
  std::optional<JsonPieces> pieces_;
  JsonPiece piece_;  // whose text may be elsewhere
  JsonPiece next_;
  std::future<bool> ahead_;  // of making next_; whether there is one
  std::string_view text_;    // followed by SIMDJSON_PADDING readable bytes
  JsonPlace asked_;          // of the byte at asked_at_ in text_
  std::size_t asked_at_ = 0;
  simdjson::ondemand::parser parser_;
  simdjson::ondemand::document document_;
  std::vector<Mistake> mistakes_;
  std::size_t unlisted_ = 0;
};

/// One value, not yet read. Read it at most once, and before the value behind it. What is not as
/// asked is a mistake; the answer then is 0, "" or nothing, and reading goes on. Broken JSON throws
/// InputError at once. Strings live as long as the JsonFile, or the piece of it.
class Json {
 public:
  Json(JsonFile& file, std::string_view label, simdjson::ondemand::value value)
      : file_(&file), label_(label), value_(value) {}

  std::string_view string();
  std::int64_t whole();  ///< a whole number >= 0; may be written as 1e3 or 1024.0
  double number();       ///< a finite number >= 0
  bool boolean();        ///< true, false, 1 or 0
  /// The position of the value, a string, among `words`; 0, and a mistake, if it is none of them.
  std::size_t one_of(std::span<const std::string_view> words);
  /// The value of the enum whose word the string is; the first, and a mistake, if there is none.
  template <NamedEnum E>
  E one_of() {
    return all<E>()[one_of(all_words<E>())];
  }

  /// field(name, value) for each key; `name` is one of keys.names. A value that `field` does not
  /// read is skipped.
  template <class Field>
  void object(const JsonKeys& keys, Field&& field);
  /// field(name, value) for each key of an object whose keys are free. Repeated keys are the
  /// caller's to refuse.
  template <class Field>
  void entries(Field&& field);
  /// element(value) for each.
  template <class Element>
  void list(Element&& element);

  bool is_object() { return starts_with('{'); }
  bool is_null() { return token() == "null"; }

  std::string_view token();  ///< the value as written; of an object or list its bracket
  std::size_t offset() { return file_->offset_of(start()); }
  void mistake(std::string_view what) {  ///< "label: what", here
    file_->mistake(offset(), fmt::format("{}: {}", label_, what));
  }
  void is_not(std::string_view expected);  ///< "label: 'found' is not expected", here

 private:
  friend class JsonFile;
  /// What fields of one object have in common: which keys were seen, and the last one.
  struct Fields {
    std::uint64_t seen = 0;
    std::size_t key = 0;  // in the order of keys.names, usually
    bool known = true;    // else the last one's was none of those
  };
  template <class Field>
  void each_field(const JsonKeys& keys, Fields& fields, bool goes_on, Field&& field);

  const char* start() { return value_.raw_json_token().data(); }
  bool starts_with(char c) { return *start() == c; }  // '\0' at the end of the text
  void must(simdjson::error_code error) const {
    if (error != simdjson::SUCCESS) file_->broken(error);
  }

  JsonFile* file_;
  std::string_view label_;  // its key, or that of the list it is in
  simdjson::ondemand::value value_;
};

/// `goes_on`: the first field is more of the last one.
template <class Field>
void Json::each_field(const JsonKeys& keys, Fields& fields, bool goes_on, Field&& field) {
  simdjson::ondemand::object object;
  must(value_.get_object().get(object));
  const bool skip = goes_on && !fields.known;
  if (goes_on && fields.known) fields.seen &= ~(std::uint64_t{1} << fields.key);
  for (auto result : object) {
    simdjson::ondemand::field f;
    must(std::move(result).get(f));
    if (std::exchange(goes_on, false) && skip) {
      file_->check_syntax(f.value(), 0);
      continue;
    }
    fields.known = file_->known(f, keys, fields.key, fields.seen);
    if (fields.known)
      field(keys.names[fields.key], Json(*file_, keys.names[fields.key], f.value()));
  }
}

template <class Field>
void Json::object(const JsonKeys& keys, Field&& field) {
  if (!is_object()) return is_not("an object");
  const std::size_t start = offset();
  Fields fields;
  each_field(keys, fields, false, field);
  file_->check_required(start, keys, fields.seen);
}

template <class Field>
void JsonFile::object(const JsonKeys& keys, Field&& field) {
  Json whole = root();
  if (!whole.is_object()) return whole.is_not("an object");
  const JsonPlace start = place(whole.offset());
  Json::Fields fields;
  whole.each_field(keys, fields, false, field);
  while (next_piece()) root().each_field(keys, fields, true, field);
  check_required(start, keys, fields.seen);
}

template <class Field>
void Json::entries(Field&& field) {
  if (!is_object()) return is_not("an object");
  simdjson::ondemand::object object;
  must(value_.get_object().get(object));
  for (auto result : object) {
    simdjson::ondemand::field f;
    must(std::move(result).get(f));
    std::string_view name;
    must(f.unescaped_key().get(name));
    field(name, Json(*file_, name, f.value()));
  }
}

template <class Element>
void Json::list(Element&& element) {
  if (!starts_with('[')) return is_not("a list");
  simdjson::ondemand::array array;
  must(value_.get_array().get(array));
  for (auto result : array) {
    simdjson::ondemand::value v;
    must(std::move(result).get(v));
    element(Json(*file_, label_, v));
  }
}

}  // namespace baechi
