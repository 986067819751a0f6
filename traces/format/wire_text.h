/// Converts protocol buffers in text form (.pbtxt) to bytes for `Wire`.
#pragma once
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace baechi {

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
