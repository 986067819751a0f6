/// A JSON reader that reports every mistake by line and column: a thin layer over simdjson's
/// On-Demand parser. It reads a text once, front to back. Include it in the .cpp that reads a
/// format, never in a header.
#pragma once
#include <fmt/format.h>
#include <simdjson.h>

#include <array>
#include <cstdint>
#include <forward_list>
#include <future>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "sim/names.h"
#include "sim/text.h"
#include "traces/format/json_pieces.h"

namespace baechi {

class Json;

/// The keys of one kind of object, at most 64. `names` outlive the file. The first `required` keys
/// must be present. A key that is not listed is a mistake, unless it begins with "x-".
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

/// A JSON text that is being read, and the mistakes found in it.
class JsonFile {
 public:
  /// Reads `text`, which must outlive this. The text is copied unless its capacity() leaves the 64
  /// bytes behind it that simdjson needs. Throws InputError if the text is not UTF-8, is empty or
  /// is over 4 GB.
  JsonFile(std::string_view path, const std::string& text);
  /// Streams `file`, which must outlive this. It may be of any length; call object(). For each
  /// piece it throws as `file` and the other constructor do.
  explicit JsonFile(TextFile& file);
  JsonFile(const JsonFile&) = delete;
  JsonFile& operator=(const JsonFile&) = delete;

  /// The outermost value of the file. Read it before finish(). Throws InputError if it is neither
  /// an object nor a list.
  Json root();
  /// root().object(), piece by piece for a streamed file. A list may then be spread over several
  /// pieces: `field` is called once per piece. Strings and offsets are valid during one call only.
  template <class Field>
  void object(const JsonKeys& keys, Field&& field);

  /// Line and column of the byte at `offset`, a value of Json::offset().
  JsonPlace place(std::size_t offset);
  /// Records the mistake "path:line:column: what"; finish() throws all recorded mistakes.
  void mistake(JsonPlace place, std::string what);
  void mistake(std::size_t offset, std::string what);

  /// Throws InputError if there were mistakes (the first 20 found, sorted by place), or if text
  /// follows the outermost value.
  void finish();

  /// Throws InputError if there were mistakes, as finish() does; does not look at the file's end.
  void throw_if_any() const;

  /// Throws at once on broken JSON, together with the mistakes before it.
  [[noreturn]] void syntax_error(std::size_t offset, std::string_view what);

 private:
  friend class Json;
  struct Mistake {
    JsonPlace place;
    std::string what;
  };
  struct Part;
  static void look_over(Part& part, std::string_view text);
  bool make_next();
  void begin();
  bool next_piece();
  [[noreturn]] void broken(simdjson::error_code error);
  std::size_t offset_of(const char* place) const {
    return static_cast<std::size_t>(place - text_.data());
  }
  /// The order in which the last object of one kind had its keys: after names[k] came
  /// names[next[k]], and names[next[names.size()]] was the first.
  struct KeyOrder {
    std::span<const std::string_view> names;
    std::array<std::uint8_t, 65> next{};
  };
  KeyOrder& order_of(const JsonKeys& keys);
  /// The state of reading one object, kept across its pieces.
  struct Fields {
    KeyOrder& order;
    std::size_t key;         // index of the last known key; at first the number of keys
    std::uint64_t seen = 0;  // one bit per key
    bool known = true;       // whether the last key was in JsonKeys::names
  };
  Fields fields_of(const JsonKeys& keys) {
    return {.order = order_of(keys), .key = keys.names.size()};
  }
  /// Whether JsonKeys::names has the field's key, which is then the last key.
  bool known(simdjson::ondemand::field& field, const JsonKeys& keys, Fields& fields) {
    const std::size_t guess = fields.order.next[fields.key];
    const std::uint64_t bit = std::uint64_t{1} << guess;
    if ((fields.seen & bit) != 0 || !is(field, keys.names[guess]))
      return search(field, keys, fields);
    fields.key = guess;
    fields.seen |= bit;
    return true;
  }
  /// `name` is shorter than the padding, so that its end may be looked at.
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
  /// A piece, and what reads it.
  struct Part {
    JsonPiece piece;
    simdjson::ondemand::parser parser;
    simdjson::ondemand::document document;
    simdjson::error_code error = simdjson::SUCCESS;
  };
  std::array<Part, 2> parts_;
  Part* now_ = parts_.data();  // its piece has no text where text_ views the caller's
  Part* next_ = parts_.data() + 1;
  std::future<bool> ahead_;  // makes next_ meanwhile; false if there is no further piece
  std::string_view text_;    // followed by SIMDJSON_PADDING readable bytes
  JsonPlace asked_;          // place of the byte at asked_at_ in text_
  std::size_t asked_at_ = 0;
  std::forward_list<KeyOrder> orders_;
  std::vector<Mistake> mistakes_;
  std::size_t unlisted_ = 0;
};

/// One value that is not read yet. Read it at most once, and before the next value. A value of the
/// wrong type is a mistake: the answer is 0, "" or nothing, and reading goes on. Broken JSON throws
/// InputError at once. Strings live as long as the JsonFile or, of a streamed file, the piece.
class Json {
 public:
  Json(JsonFile& file, std::string_view label, simdjson::ondemand::value value)
      : file_(&file), label_(label), value_(value) {}

  std::string_view string();
  std::int64_t whole();  ///< a whole number >= 0; may be written as 1e3 or 1024.0
  double number();       ///< a finite number >= 0
  bool boolean();        ///< true, false, 1 or 0
  /// Index in `words` of the value, a string. If it is none of them: a mistake, and 0.
  std::size_t one_of(std::span<const std::string_view> words);
  /// The enumerator that the string names. If it names none: a mistake, and the first enumerator.
  template <NamedEnum E>
  E one_of() {
    return all<E>()[one_of(all_words<E>())];
  }

  /// Calls field(key, value) for each key; `key` is a JsonKey, or its name. A value that `field`
  /// does not read is skipped.
  template <class Field>
  void object(const JsonKeys& keys, Field&& field);
  /// Calls field(name, value) for each key of an object that may have any keys. The caller must
  /// check for repeated keys.
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

/// `goes_on`: the first field continues the last field of the piece before.
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
