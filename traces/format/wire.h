/// Protocol buffers: a streaming reader without a schema, and their text form (.pbtxt). Callers
/// select fields by number; other fields are skipped without being held in memory, so a model's
/// weights may be of any size.
#pragma once
#include <limits>
#include <span>

#include "traces/format/compressed_file.h"

namespace baechi {

/// The message being read. All members throw InputError, with the byte, if the file is truncated, a
/// length exceeds the enclosing message, or a value has another type.
/// Source of the encoding: protobuf.dev/programming-guides/encoding.
class Wire {
 public:
  explicit Wire(TextFile& file) : file_(file) {}
  Wire(const Wire&) = delete;
  Wire& operator=(const Wire&) = delete;

  /// Calls field(number) for each field of the message; values that `field` does not read are
  /// skipped. Initially the whole file is the message.
  template <class Field>
  void fields(Field&& field) {
    while (!at_end()) {
      const std::uint32_t number = next_field();
      field(number);
      if (!read_) skip_value();
    }
  }
  /// Calls field(number) for each field of the current value, a message.
  template <class Field>
  void message(Field&& field) {
    const std::uint64_t outer = enter();
    fields(field);
    leave(outer);
  }
  /// The same for a length-delimited message in a file of several; false at the end of the file.
  template <class Field>
  bool delimited(Field&& field) {
    if (at_end()) return false;
    const std::uint64_t outer = enter(raw_varint());
    fields(field);
    leave(outer);
    return true;
  }

  std::uint64_t varint();  ///< uint32, uint64, bool, an enumerator
  std::int64_t whole() { return static_cast<std::int64_t>(varint()); }  ///< int32, int64
  std::int64_t zigzag();                                                ///< sint32, sint64
  double real();                                                        ///< float or double
  /// A string or bytes, at most `most`.
  std::string bytes(std::size_t most = std::size_t{1} << 20U);
  std::string text();  ///< a string, converted to valid UTF-8 by plain_text()
  /// Calls value(n) for each integer of a repeated field, packed or not.
  template <class Value>
  void each_whole(Value&& value) {
    if (type_ != 2) return value(whole());
    const std::uint64_t outer = enter();
    while (!at_end()) value(static_cast<std::int64_t>(raw_varint()));
    leave(outer);
  }
  /// The same for a repeated field of floats.
  template <class Value>
  void each_real(Value&& value) {
    if (type_ != 2) return value(real());
    const std::uint64_t outer = enter();
    while (!at_end()) value(std::bit_cast<float>(static_cast<std::uint32_t>(fixed(4))));
    leave(outer);
  }
  /// Bytes of the current value (a string, bytes, message or packed numbers), without reading it.
  std::uint64_t length() const { return length_; }
  bool is_varint() const { return type_ == 0; }

  std::uint64_t position() const { return base_ + at_; }  ///< of the next byte, from 0
  [[noreturn]] void broken(std::string_view what) const;

 private:
  bool at_end();
  bool has(std::size_t bytes);
  std::uint8_t next_byte();
  std::uint64_t raw_varint();
  std::uint32_t next_field();
  std::uint64_t fixed(int bytes);
  void skip(std::uint64_t bytes);
  void skip_value();
  void take(unsigned type);
  std::uint64_t enter();
  std::uint64_t enter(std::uint64_t length);
  void leave(std::uint64_t outer);

  static constexpr std::uint64_t no_limit = std::numeric_limits<std::uint64_t>::max();
  TextFile& file_;
  std::string buffer_;
  std::size_t at_ = 0;              // in buffer_
  std::uint64_t base_ = 0;          // position of buffer_ in the file
  std::uint64_t limit_ = no_limit;  // position of the message's end
  int depth_ = 0;
  unsigned type_ = 0;         // of the current value
  std::uint64_t length_ = 0;  // of the current value, if it has one
  bool read_ = true;          // whether the current value was read
};

/// The encoding of a field.
enum class WireType : std::uint8_t { whole, text, message };

/// A field to convert; others are skipped.
struct WireField {
  std::string_view message, field;
  std::uint32_t number = 0;
  WireType type{};
  std::string_view inner{};  ///< the value's message type
};

/// Encodes `text`, the text form of a `message`, with the fields in `schema`. `word` gives the
/// number of an enumerator, 0 if unknown. Throws InputError with the place in `path` of a syntax
/// error.
/// Source: protobuf.dev/reference/protobuf/textformat-spec.
std::string bytes_of_text(std::string_view text, std::string_view path, std::string_view message,
                          std::span<const WireField> schema,
                          std::uint64_t (*word)(std::string_view));

}  // namespace baechi
