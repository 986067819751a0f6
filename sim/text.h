/// Sanitising of text from files for terminals, HTML and SVG.
#pragma once
#include <string>
#include <string_view>

namespace baechi {

/// `text` as valid UTF-8 without terminal control: bytes that are not UTF-8 become U+FFFD; escape
/// sequences (ESC [ ..., ESC ] ..., and their one-character forms U+0080 to U+009F) and control
/// characters other than line breaks and tabs are removed.
std::string plain_text(std::string_view text);

/// `text` with the special characters of HTML and SVG escaped.
std::string escaped(std::string_view text);

/// `text` without the spaces, tabs and carriage returns at its ends.
std::string_view trimmed(std::string_view text);

}  // namespace baechi
