/// A JSON reader that reports mistakes by line and column: a thin layer over simdjson's On-Demand
/// parser, which reads a text once, front to back. Include it in .cpp files only.
#pragma once
#include <fmt/format.h>
#include <simdjson.h>

#include <forward_list>
#include <future>
#include <span>
#include <utility>
#include <vector>

#include "sim/names.h"
#include "sim/text.h"
#include "traces/format/json_pieces.h"

namespace baechi {

class Json;

/// The keys of a kind of object, at most 64. `names` must outlive the file. The first `required`
/// keys must be present. Other keys are mistakes, unless they begin with "x-".
struct JsonKeys {
  std::string_view object;  ///< the object's name in messages: "an op"
  std::span<const std::string_view> names;
  std::size_t required = 0;
};

/// A key of an object: one of JsonKeys::names, and its index there.
struct JsonKey {
  std::size_t index = 0;
  std::string_view name;
  operator std::string_view() const { return name; }
};

/// A JSON text that is being read, and its mistakes.
class JsonFile {
 public:
  /// Reads `text`, which must outlive this. It is copied unless its capacity() has the 64 spare
  /// bytes that simdjson needs. Throws InputError if the text is not UTF-8, is empty or is over 4
  /// GB.
  JsonFile(std::string_view path, const std::string& text);
  /// Streams `file`, of any length, which must outlive this. Call object(). Throws as `file` and
  /// the other constructor do, for each piece.
  explicit JsonFile(TextFile& file);
  JsonFile(const JsonFile&) = delete;
  JsonFile& operator=(const JsonFile&) = delete;

  /// The outermost value. Read it before finish(). Throws InputError if it is not an object or
  /// list.
  Json root();
  /// root().object(), piece by piece for a streamed file: `field` is called once per piece of a
  /// list. Strings and offsets are only valid during the call.
  template <class Field>
  void object(const JsonKeys& keys, Field&& field);

  /// Line and column of the byte at `offset`, from Json::offset().
  JsonPlace place(std::size_t offset);
  /// Records the mistake "path:line:column: what", which finish() throws.
  void mistake(JsonPlace place, std::string what);
  void mistake(std::size_t offset, std::string what);

  /// Throws InputError if there are mistakes (lists the first 20, by place), or text after the
  /// outermost value.
  void finish();

  /// As finish(), without the check for text after the outermost value.
  void throw_if_any() const;

  /// Throws immediately, with the mistakes recorded before.
  [[noreturn]] void syntax_error(std::size_t offset, std::string_view what);

 private:
  friend class Json;
  struct Mistake {
    JsonPlace place;
    std::string what;
  };
  struct ParsedPiece;
  static void index_text(ParsedPiece& part, std::string_view text);
  bool prepare_next();
  void begin();
  bool next_piece();
  [[noreturn]] void broken(simdjson::error_code error);
  std::size_t offset_of(const char* place) const {
    return static_cast<std::size_t>(place - text_.data());
  }
  /// The key order of the last object of a kind: names[k] was followed by names[next[k]], and
  /// names[next[names.size()]] was the first.
  struct KeyOrder {
    std::span<const std::string_view> names;
    std::array<std::uint8_t, 65> next{};
  };
  KeyOrder& order_of(const JsonKeys& keys);
  /// The state of reading one object, kept across its pieces.
  struct Fields {
    KeyOrder& order;
    std::size_t key;         // index of the last known key; initially the number of keys
    std::uint64_t seen = 0;  // one bit per key
    bool known = true;       // whether the last key was in JsonKeys::names
  };
  Fields fields_of(const JsonKeys& keys) {
    return {.order = order_of(keys), .key = keys.names.size()};
  }
  /// Whether JsonKeys::names has the field's key; if so, sets fields.key.
  bool known(simdjson::ondemand::field& field, const JsonKeys& keys, Fields& fields) {
    const std::size_t guess = fields.order.next[fields.key];
    const std::uint64_t bit = std::uint64_t{1} << guess;
    if ((fields.seen & bit) != 0 || !is(field, keys.names[guess]))
      return search(field, keys, fields);
    fields.key = guess;
    fields.seen |= bit;
    return true;
  }
  /// Reads one byte after the name, which is within the padding because names are shorter.
  static bool is(simdjson::ondemand::field& field, std::string_view name) {
    const char* raw = field.key().raw();
    return raw[name.size()] == '"' && same_text(raw, name.data(), name.size());
  }
  bool search(simdjson::ondemand::field& field, const JsonKeys& keys, Fields& fields);
  void check_required(auto where, const JsonKeys& keys, std::uint64_t seen) {
    for (std::size_t i = 0; i < keys.required; ++i)
      if ((seen >> i & 1U) == 0)
        mistake(where, fmt::format("{} needs a key '{}'", keys.object, keys.names[i]));
  }
  void check_syntax(simdjson::ondemand::value value, int depth);

  std::string path_;
  std::optional<JsonPieces> pieces_;
  struct ParsedPiece {
    JsonPiece piece;
    simdjson::ondemand::parser parser;
    simdjson::ondemand::document document;
    simdjson::error_code error = simdjson::SUCCESS;
  };
  std::array<ParsedPiece, 2> parsed_;
  ParsedPiece* now_ = parsed_.data();  // its piece is empty if text_ views the caller's text
  ParsedPiece* next_ = parsed_.data() + 1;
  std::future<bool> prefetch_;  // prepares next_ concurrently; false: no further piece
  std::string_view text_;       // followed by SIMDJSON_PADDING readable bytes
  JsonPlace cached_place_;      // place of the byte at cached_offset_ in text_
  std::size_t cached_offset_ = 0;
  std::forward_list<KeyOrder> orders_;
  std::vector<Mistake> mistakes_;
  std::size_t unlisted_ = 0;
};

/// An unread value. Read it at most once, and before the next value. A value of the wrong type is
/// recorded as a mistake, and reads as 0, "" or nothing. Malformed JSON throws InputError
/// immediately. Strings are valid as long as the JsonFile or, if streamed, the piece.
class Json {
 public:
  Json(JsonFile& file, std::string_view label, simdjson::ondemand::value value)
      : file_(&file), label_(label), value_(value) {}

  std::string_view string();
  std::int64_t whole();  ///< an integer >= 0; may be written as 1e3 or 1024.0
  double number();       ///< a finite number >= 0
  bool boolean();        ///< true, false, 1 or 0
  /// Index in `words` of the string value; a mistake and 0 if it is not there.
  std::size_t one_of(std::span<const std::string_view> words);
  /// The enumerator named by the string; a mistake and the first enumerator if there is none.
  template <NamedEnum E>
  E one_of() {
    return all<E>()[one_of(all_words<E>())];
  }

  /// Calls field(key, value) for each key; `key` is a JsonKey or its name. Values that `field` does
  /// not read are skipped.
  template <class Field>
  void object(const JsonKeys& keys, Field&& field);
  /// Calls field(name, value) for each key of an object with arbitrary keys, duplicates included.
  template <class Field>
  void entries(Field&& field);
  /// Calls element(value) for each element of a list.
  template <class Element>
  void list(Element&& element);

  bool is_object() { return starts_with('{'); }
  bool is_null() { return token() == "null"; }

  std::string_view token();  ///< the value as written; for an object or list, its opening bracket
  std::size_t offset() { return file_->offset_of(start()); }
  void mistake(std::string_view what) {  ///< records "label: what" at this value's place
    file_->mistake(offset(), fmt::format("{}: {}", label_, what));
  }
  void is_not(std::string_view expected);  ///< records "label: 'found' is not expected"

 private:
  friend class JsonFile;
  template <class Field>
  void each_field(const JsonKeys& keys, JsonFile::Fields& fields, bool goes_on, Field&& field);

  const char* start() { return value_.raw_json_token().data(); }
  std::string_view string_without_escapes();
  std::optional<std::int64_t> digits();
  bool starts_with(char c) { return *start() == c; }  // '\0' at the end of the text
  void must(simdjson::error_code error) const {
    if (error != simdjson::SUCCESS) file_->broken(error);
  }

  JsonFile* file_;
  std::string_view label_;  // the value's key; for an element, the key of its list
  simdjson::ondemand::value value_;
};

/// `goes_on`: the first field continues the last field of the previous piece.
template <class Field>
void Json::each_field(const JsonKeys& keys, JsonFile::Fields& fields, bool goes_on, Field&& field) {
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
    fields.known = file_->known(f, keys, fields);
    if (!fields.known) continue;
    const JsonKey key{fields.key, keys.names[fields.key]};
    field(key, Json(*file_, key.name, f.value()));
  }
}

template <class Field>
void Json::object(const JsonKeys& keys, Field&& field) {
  if (!is_object()) return is_not("an object");
  const std::size_t start = offset();
  JsonFile::Fields fields = file_->fields_of(keys);
  each_field(keys, fields, false, field);
  file_->check_required(start, keys, fields.seen);
}

template <class Field>
void JsonFile::object(const JsonKeys& keys, Field&& field) {
  Json whole = root();
  if (!whole.is_object()) return whole.is_not("an object");
  const JsonPlace start = place(whole.offset());
  Fields fields = fields_of(keys);
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
