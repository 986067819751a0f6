/// Protocol buffers written as text (.pbtxt), turned into bytes for `Wire`.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace baechi {

/// How a field is written in bytes.
enum class WireType : std::uint8_t { whole, text, message };

/// One wanted field of a message; other fields are skipped.
struct WireField {
  std::string_view message, field;
  std::uint32_t number = 0;
  WireType type{};
  std::string_view inner{};  ///< name of the message that the value is
};

/// The bytes of the message `message`, of which `text` is the text form. `schema` names the fields
/// that are wanted. An enumerator is a word; `word` gives its number, 0 if it knows none.
/// Throws InputError with `path` and the place where the text is not of this form.
/// Source: protobuf.dev/reference/protobuf/textformat-spec.
std::string bytes_of_text(std::string_view text, std::string_view path, std::string_view message,
                          std::span<const WireField> schema,
                          std::uint64_t (*word)(std::string_view));

}  // namespace baechi
